/* test_hvdrun_lines.c: hvdrun prints all output of the ranks, in whole lines with the number of the rank. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "tools/hvdrun/lines.h"

static struct lines lines;
static struct line_buffer buffers[3];
static struct line_prefix line_prefix = {LINE_PREFIX_DEFAULT, "default"};

static void set_up_for(bool prefix, bool terminal)
{
    lines_init(&lines, prefix ? &line_prefix : NULL, terminal);
    for (int rank = 0; rank < 3; rank++)
        buffers[rank] = (struct line_buffer){.rank = rank};
}

static void set_up(bool prefix)
{
    set_up_for(prefix, false);
}

static void tear_down(void)
{
    lines_fini(&lines);
    for (int rank = 0; rank < 3; rank++)
        line_buffer_fini(&buffers[rank]);
}

static void feed(int rank, const char *text, size_t length)
{
    while (length > 0) {
        size_t room = 0;
        char *to = line_buffer_room(&buffers[rank], &room);
        ck_assert_ptr_nonnull(to);
        size_t count = length < room ? length : room;
        memcpy(to, text, count);
        lines_feed(&lines, &buffers[rank], count);
        text += count;
        length -= count;
    }
}

static void say(int rank, const char *text)
{
    feed(rank, text, strlen(text));
}

static void expect(const char *text)
{
    char found[256] = "";
    size_t length = lines.out.end - lines.out.first;
    ck_assert_uint_lt(length, sizeof(found));
    if (length > 0)
        memcpy(found, lines.out.bytes + lines.out.first, length);
    ck_assert_str_eq(found, text);
    text_buffer_drop(&lines.out, length);
}

START_TEST(each_line_has_its_rank)
{
    set_up(true);
    say(1, "a\nb\n\n");
    say(0, "c\n");
    expect("[1] a\n[1] b\n[1] \n[0] c\n");
    tear_down();
}
END_TEST

START_TEST(a_template_says_what_the_prefix_is)
{
    set_up(true);
    line_prefix = (struct line_prefix){"${role_name}:$${rank}/${local_rank}$", "trainer"};
    say(1, "text\n");
    expect("trainer:$1/1$text\n");
    ck_assert_uint_eq(line_prefix_length(&line_prefix, 10), strlen("trainer:$10/10$"));
    line_prefix = (struct line_prefix){"", ""};
    say(1, "text\n");
    expect("text\n");
    tear_down();
}
END_TEST

START_TEST(a_line_in_pieces_stays_one_line)
{
    set_up(true);
    say(0, "hel");
    say(1, "other\n");
    say(0, "lo\nnext");
    expect("[1] other\n[0] hello\n");
    say(0, "\n");
    expect("[0] next\n");
    tear_down();
}
END_TEST

START_TEST(a_last_line_without_end_is_ended)
{
    set_up(true);
    say(0, "a\nb");
    lines_end(&lines, &buffers[0]);
    say(1, "c\n");
    expect("[0] a\n[0] b\n[1] c\n");
    lines_end(&lines, &buffers[0]);
    lines_end(&lines, &buffers[1]);
    expect("");
    tear_down();
}
END_TEST

START_TEST(without_prefixes_bytes_are_kept)
{
    set_up(false);
    say(0, "a\nb");
    lines_end(&lines, &buffers[0]);
    expect("a\nb");
    say(1, "c\n");
    expect("c\n");
    tear_down();
}
END_TEST

START_TEST(a_prompt_is_shown_and_its_line_goes_on)
{
    set_up(true);
    say(0, "name? ");
    expect("");
    lines_flush(&lines, &buffers[0]);
    expect("[0] name? ");
    ck_assert_int_eq(lines.open_rank, 0);
    say(0, "Bob\n");
    expect("Bob\n");
    ck_assert_int_eq(lines.open_rank, -1);
    tear_down();
}
END_TEST

START_TEST(another_rank_ends_an_open_line)
{
    set_up(true);
    say(0, "50%");
    lines_flush(&lines, &buffers[0]);
    say(1, "hi\n");
    say(0, "60%\n");
    expect("[0] 50%\n[1] hi\n[0] 60%\n");
    tear_down();
}
END_TEST

START_TEST(a_long_line_is_complete_in_bounded_memory)
{
    static char line[10 * LINES_MAX_LINE];
    size_t passed = 0;
    set_up(true);
    for (size_t i = 0; i < sizeof(line); i++)
        line[i] = (char)('a' + i % 26);
    line[sizeof(line) - 1] = '\n';
    for (size_t at = 0; at < sizeof(line); at += 1000) {
        size_t count = sizeof(line) - at < 1000 ? sizeof(line) - at : 1000;
        feed(0, line + at, count);
        ck_assert_uint_le(buffers[0].room, 2 * LINES_MAX_LINE);
        size_t out = lines.out.end - lines.out.first;
        if (out == 0)
            continue;
        size_t skip = passed == 0 ? strlen("[0] ") : 0;
        ck_assert(memcmp(lines.out.bytes + lines.out.first + skip, line + passed, out - skip) == 0);
        passed += out - skip;
        text_buffer_drop(&lines.out, out);
        ck_assert_uint_le(lines.out.room, 4 * LINES_MAX_LINE);
    }
    ck_assert_uint_eq(passed, sizeof(line));
    tear_down();
}
END_TEST

START_TEST(zero_bytes_are_carried)
{
    set_up(true);
    feed(2, "a\0b\n", 4);
    ck_assert_uint_eq(lines.out.end, 8);
    ck_assert(memcmp(lines.out.bytes, "[2] a\0b\n", 8) == 0);
    tear_down();
}
END_TEST

START_TEST(a_bar_becomes_one_line)
{
    set_up(true);
    say(0, "\r 0%|");
    say(0, "\r50%|#");
    say(0, "\r100%|##\n");
    say(1, "10%\r20%\r\n");
    say(2, "dos\r\n");
    expect("[0] 100%|##\n[1] 20%\r\n[2] dos\r\n");
    say(0, "\r 0%|\r 9%|");
    lines_end(&lines, &buffers[0]);
    expect("[0]  9%|\n");
    tear_down();
}
END_TEST

START_TEST(without_prefixes_a_bar_is_kept_byte_for_byte)
{
    set_up(false);
    say(0, "\r 0%|\r50%|");
    lines_show(&lines, &buffers[0]);
    say(0, "\r99%|\n");
    expect("\r 0%|\r50%|\r99%|\n");
    tear_down();
}
END_TEST

START_TEST(in_a_file_each_look_at_the_lowest_bar_is_a_line)
{
    set_up(true);
    say(1, "\r10%");
    lines_show(&lines, &buffers[1]);
    say(0, "\r20%\r30%\r");
    lines_show(&lines, &buffers[0]);
    say(1, "\r40%");
    lines_show(&lines, &buffers[1]);
    expect("[1] 10%\n[0] 30%\n");
    say(0, "\r99%\n");
    say(1, "\r50%");
    lines_show(&lines, &buffers[1]);
    expect("[0] 99%\n[1] 50%\n");
    ck_assert_int_eq(lines.open_rank, -1);
    tear_down();
}
END_TEST

START_TEST(on_a_terminal_a_bar_is_overwritten)
{
    set_up_for(true, true);
    say(0, "\r10%");
    lines_show(&lines, &buffers[0]);
    say(0, "\r20%");
    lines_show(&lines, &buffers[0]);
    expect("[0] 10%\r\033[K[0] 20%");
    say(1, "hello\n");
    expect("\r\033[K[1] hello\n");
    lines_show(&lines, &buffers[0]);
    say(0, "\r30%\n");
    expect("[0] 20%\r\033[K[0] 30%\n");
    say(0, "\r40%");
    lines_show(&lines, &buffers[0]);
    lines_end(&lines, &buffers[0]);
    expect("[0] 40%\r\033[K[0] 40%\n");
    tear_down();
}
END_TEST

/* However long a program rewrites its line, no more than one text is kept. */
START_TEST(an_endless_bar_takes_bounded_memory)
{
    set_up(true);
    for (int i = 0; i < 100000; i++)
        say(0, "\r0123456789");
    ck_assert_uint_le(buffers[0].room, 2048);
    say(0, "\n");
    expect("[0] 0123456789\n");
    tear_down();
}
END_TEST

static void fill(Suite *suite)
{
    TCase *tcase = tcase_create("lines");
    tcase_add_test(tcase, each_line_has_its_rank);
    tcase_add_test(tcase, a_template_says_what_the_prefix_is);
    tcase_add_test(tcase, a_line_in_pieces_stays_one_line);
    tcase_add_test(tcase, a_last_line_without_end_is_ended);
    tcase_add_test(tcase, without_prefixes_bytes_are_kept);
    tcase_add_test(tcase, a_prompt_is_shown_and_its_line_goes_on);
    tcase_add_test(tcase, a_bar_becomes_one_line);
    tcase_add_test(tcase, without_prefixes_a_bar_is_kept_byte_for_byte);
    tcase_add_test(tcase, in_a_file_each_look_at_the_lowest_bar_is_a_line);
    tcase_add_test(tcase, on_a_terminal_a_bar_is_overwritten);
    tcase_add_test(tcase, an_endless_bar_takes_bounded_memory);
    tcase_add_test(tcase, another_rank_ends_an_open_line);
    tcase_add_test(tcase, a_long_line_is_complete_in_bounded_memory);
    tcase_add_test(tcase, zero_bytes_are_carried);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    return unit_run("hvdrun_lines", fill);
}
