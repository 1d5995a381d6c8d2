#!/usr/bin/env python3
"""test_bars.py: the records of commands are read, and judged by the bars."""

import unittest

import bars
from bars import Limit

BY_MPI = Limit("time / best MPI", "hvd_us", by="mpi_best_us", most=0.7)
BY_COPY = Limit("time / memcpy", "hvd_us", by="memcpy_us", most=1.2, stretch=1.0)
TIME = Limit("time", "hvd_us", unit="us", most=20, stretch=3)
SHOWN = Limit("shown", "hvd_us", unit="us")


def measured(limit, *turns):
    """The number of a limit whose commands gave these values of hvd_us in each turn."""
    return bars.measure(limit, [[{"hvd_us": value, "of": 4} for value in turn] for turn in turns])


class Reading(unittest.TestCase):
    def test_a_run_of_allreduce_is_judged(self):
        record = bars.read_record('{"hvd_us": 14000, "memcpy_us": 12500.5, "p99_us": null, "mpi_best_us": 20000}\n')
        self.assertEqual(bars.measure(BY_MPI, [[record]]), 0.7)
        self.assertEqual(bars.judge(BY_MPI, 0.7), "yes")
        self.assertAlmostEqual(bars.measure(BY_COPY, [[record]]), 1.11996, 5)

    def test_without_mpi_the_others_are_judged(self):
        record = bars.read_record('{"hvd_us": 14000, "memcpy_us": 14000, "no_mpi": "left out by --no-mpi"}')
        with self.assertRaisesRegex(bars.NotRun, "^MPI was left out: left out by --no-mpi$"):
            bars.measure(BY_MPI, [[record]])
        self.assertEqual(bars.judge(BY_COPY, bars.measure(BY_COPY, [[record]])), "stretch")

    def test_what_is_no_object_is_refused(self):
        for text in ("", "hvd: hello", "[1]", "3", '{"hvd_us": 1', '{"a": 1}{"a": 1}'):
            with self.assertRaisesRegex(bars.Failed, "^no JSON object was written, but: "):
                bars.read_record(text)

    def test_what_is_not_there_is_no_number(self):
        for record in ({}, {"hvd_us": None}, {"hvd_us": "12"}):
            with self.assertRaisesRegex(bars.NotRun, "^nothing was said of hvd_us$"):
                bars.measure(TIME, [[{"hvd_us": 1}, record]])
        for number in (0, 1):
            with self.assertRaisesRegex(bars.NotRun, "^there is no number for time / memcpy$"):
                bars.measure(BY_COPY, [[{"hvd_us": number, "memcpy_us": 0}]])


class Measuring(unittest.TestCase):
    def test_the_command_with_the_most_counts(self):
        self.assertEqual(measured(TIME, [5, 9, 2]), 9)
        self.assertEqual(measured(Limit("", "hvd_us", by="of"), [5, 9, 2]), 2.25)
        self.assertEqual(measured(Limit("", "hvd_us", above="of"), [5, 9, 2]), 5)
        self.assertEqual(measured(Limit("", "hvd_us", spread=True), [5, 9, 2]), 4.5)
        self.assertEqual(measured(Limit("", "hvd_us", spread=True), [7, 7, 7]), 1)

    def test_turns_of_a_command_have_a_median(self):
        turns = [10, 8], [90, 1], [11, 9]
        self.assertEqual(measured(TIME, *turns), 11)
        self.assertEqual(measured(Limit("", "hvd_us", by="of"), *turns), 2.75)
        self.assertEqual(measured(Limit("", "hvd_us", above="of"), *turns), 7)

    def test_a_spread_compares_what_ran_side_by_side(self):
        spread = Limit("", "hvd_us", spread=True)
        # both take the same time, and the machine slows down while a turn runs
        self.assertEqual(measured(spread, [10, 10], [10, 20], [20, 20]), 1)
        # the second always takes a tenth more, while the speed of the machine changes
        self.assertAlmostEqual(measured(spread, [10, 11], [40, 44], [20, 22]), 1.1)
        # less is just as wrong; the median of the turns counts
        self.assertAlmostEqual(measured(spread, [10, 8], [90, 1], [10, 9]), 1.25)
        # once more and once less: chance
        self.assertEqual(measured(spread, [10, 12], [10, 8], [10, 10]), 1)


class Judging(unittest.TestCase):
    def test_all_runs_have_to_meet_it(self):
        for seen, met in (([20], "yes"), ([20.001], "no"), ([3], "stretch"), ([3.001], "yes"), ([1, 2, 3], "stretch"),
                          ([1, 2, 4], "yes"), ([1, 21, 4], "no"), ([21, 1, 1], "no"), ([float("nan"), 1], "no")):
            self.assertEqual(bars.worst(bars.judge(TIME, number) for number in seen), met, seen)
        self.assertEqual(bars.judge(BY_MPI, 0.1), "yes")  # it has no stretch

    def test_what_has_no_bar_is_not_judged(self):
        self.assertEqual(measured(SHOWN, [7]), 7)
        for number in (0, 7, float("nan")):
            self.assertEqual(bars.judge(SHOWN, number), "-")
        result = bars.Result(SHOWN)
        result.fail(bars.Failed("it failed"))
        self.assertEqual(result.met, "-")

    def test_what_fails_is_missed(self):
        for error, met in ((bars.Failed("it failed"), "no"), (bars.NotRun("it is not here"), "not run")):
            result = bars.Result(TIME)
            result.fail(error)
            self.assertEqual((result.met, result.why), (met, str(error)))


class Table(unittest.TestCase):
    def test_it_is_sound(self):
        self.assertEqual(len({bar.name for bar in bars.BARS}), len(bars.BARS))
        for bar in bars.BARS:
            self.assertIsNotNone(bar.limits[0].most)
            self.assertEqual(len({limit.title for limit in bar.limits}), len(bar.limits))
            for limit in bar.limits:
                self.assertLessEqual((limit.by is not None) + (limit.above is not None) + limit.spread, 1)
                self.assertTrue(limit.stretch is None or limit.stretch <= limit.most)

    def test_models_on_one_node_are_judged_in_memory_of_hvd_alloc(self):
        for bar in bars.BARS:
            is_one = "hvdrun" in bar.commands[0] and bar.turns == 1 and "--model=" in bar.commands[0]
            judged = [limit.by for limit in bar.limits if limit.field == "hvd_alloc_us"]
            beside = [limit.by for limit in bar.limits if limit.field == "hvd_us" and limit.most is None]
            self.assertEqual(len(judged) > 0, is_one)
            self.assertEqual(judged, beside)
            self.assertTrue(all(limit.most for limit in bar.limits if limit.field == "hvd_alloc_us"))

    def test_bars_are_chosen_by_name(self):
        self.assertEqual([bar.name for bar in bars.bars_named("latency,small")], ["small", "latency"])
        for names in ("nosuch", "small,", ",", "small,,latency", "smal", "smaller", "small latency"):
            with self.assertRaisesRegex(bars.argparse.ArgumentTypeError, "expected some of resnet50, "):
                bars.bars_named(names)


if __name__ == "__main__":
    unittest.main()
