"""Ends a rank that stands still, and says where."""
import faulthandler
import os
import sys
import threading
import time


class Watchdog:
    """A thread that looks whether the program moves."""

    def __init__(self, seconds):
        self._seconds = seconds
        self._place, self._since = "the start", time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def at(self, place):
        """The program is at this place now. The second timer runs also where a thread that is
        stuck holds the interpreter."""
        self._place, self._since = place, time.monotonic()
        faulthandler.dump_traceback_later(self._seconds + 10, exit=True)

    def _watch(self):
        while time.monotonic() - self._since < self._seconds:
            time.sleep(0.2)
        sys.stderr.write("stands still for %g s at %s\n" % (self._seconds, self._place))
        faulthandler.dump_traceback(all_threads=True)
        sys.stderr.flush()
        time.sleep(4)  # other ranks are about to say the same, and would be ended
        os._exit(3)

    def failed(self, report):
        """The program is wrong: say it, and end before anything else can hang."""
        sys.stderr.write("failed at %s\n%s" % (self._place, report))
        sys.stderr.flush()
        os._exit(1)
