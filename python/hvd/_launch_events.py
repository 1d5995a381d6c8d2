"""Hands the events of a launch, which hvdrun writes to a socket, to a function of the caller."""
import json
import os
import socket
import sys
import threading
import traceback
from typing import Any, Callable, Dict, Optional

from hvd.errors import InvalidError

Handler = Callable[[Dict[str, Any]], None]


class Reader:
    """A socket in [folder], whose events [handler] gets one by one, in a thread of its own: while
    it takes its time, the job goes on. With None there is no socket."""

    def __init__(self, folder: str, handler: Optional[Handler]):
        self._handler, self._thread = handler, None
        self._path = os.path.join(folder, "events")
        if handler is None:
            return
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(self._path)
        except OSError as error:
            self._listener.close()
            raise InvalidError(
                "event_handler: no socket can be made at %s (%s); name a folder with a shorter "
                "path in TMPDIR" % (self._path, error)
            ) from error
        self._listener.listen()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def options(self):
        """Those of hvdrun that make it write there."""
        return ["--events=unix:" + self._path] if self._thread else []

    def close(self) -> None:
        """hvdrun has ended: wait until its last event is handled."""
        if self._thread is None:
            return
        self._listener.shutdown(socket.SHUT_RDWR)  # hvdrun may have ended before it connected
        self._thread.join()
        self._listener.close()

    def _read(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # nobody has connected
            return
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                self._handle(json.loads(line))

    def _handle(self, event: Dict[str, Any]) -> None:
        try:
            self._handler(event)
        except Exception:  # the job goes on
            sys.stderr.write("hvd: event_handler failed for %s:\n" % event["event"])
            traceback.print_exc()
