"""Brings the log into the file beside the writer, so that few commits have to wait for it."""

import sqlite3
import threading
from contextlib import suppress

PAUSE = 1.0
"""Seconds from a write to the next checkpoint: pages that change often are written once for all of them."""


class Checkpoints:
    """A thread with a connection of its own, at work only while something is written.

    SQLite does the same within the commit that makes the log too long: one was seen to take 78 ms, for which
    every later turn had to wait. That one still comes, empties the log where this thread is behind, and finds
    little left to do. What fails here is tried again after the next write; a log that cannot grow any more is
    told by the commit that needed it to.
    """

    def __init__(self, *, connection: sqlite3.Connection, pause: float = PAUSE) -> None:
        self._connection = connection
        self._pause = pause
        self._written = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="state-checkpoints", daemon=True)
        self._thread.start()

    def note(self) -> None:
        """Something was written; any thread may say so."""
        self._written.set()

    def close(self) -> None:
        """Ends the thread, then the connection; waits for a checkpoint that is under way."""
        self._closing.set()
        self._written.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while (
            not self._closing.is_set()
        ):  # asked after `clear` too, which may have wiped out what `close` said
            self._written.wait()
            if self._closing.wait(self._pause):
                return
            self._written.clear()
            with suppress(sqlite3.Error):
                # Passive: it waits for nobody, and nobody for it.
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
