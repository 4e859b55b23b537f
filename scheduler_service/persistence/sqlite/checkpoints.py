"""Checkpoints beside the writer, so that few commits have to wait for one."""

import sqlite3
import threading
from contextlib import suppress

PAUSE_SECONDS = 1.0
"""From a write to the next checkpoint: a page that changes often is written once for several changes."""


class Checkpoints:
    """A thread with a connection of its own, active only while something is written.

    SQLite checkpoints by itself within the commit that makes the log too long: one was seen to take 78 ms,
    for which every later turn had to wait. That one still comes, empties the log if this thread is behind,
    and finds little left to do. A checkpoint that fails is tried again after the next write; if the log
    cannot grow any more, the commit that needs it to fails.
    """

    def __init__(self, *, connection: sqlite3.Connection, pause: float = PAUSE_SECONDS) -> None:
        self._connection = connection
        self._pause = pause
        self._written = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="state-checkpoints", daemon=True)
        self._thread.start()

    def note(self) -> None:
        """Something was written. For any thread."""
        self._written.set()

    def close(self) -> None:
        """Ends the thread, then the connection; waits for a checkpoint that is under way."""
        self._closing.set()
        self._written.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        # Checked after `clear` too, which may have undone the `set` of `close`.
        while not self._closing.is_set():
            self._written.wait()
            if self._closing.wait(self._pause):
                return
            self._written.clear()
            with suppress(sqlite3.Error):
                # Passive: it waits for no other connection, and none waits for it.
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
