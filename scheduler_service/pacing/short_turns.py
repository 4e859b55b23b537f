"""How long a thread keeps the interpreter from others that ask for it."""

import contextlib
import sys
import threading
from collections.abc import Iterator

SWITCH_SECONDS = 0.000_2
"""While turns are short a thread gets the interpreter in this time; a firing and its write ask ten times."""


class ShortTurns:
    """Turns are short while any of those that ask for it works, and as they were afterwards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working = 0
        self._usual = 0.0

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """For work of a thread beside the loop."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def begin(self) -> None:
        """Until `end`, which follows."""
        with self._lock:
            if self._working == 0:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(SWITCH_SECONDS)
            self._working += 1

    def end(self) -> None:
        """Those who work are one less."""
        with self._lock:
            self._working -= 1
            if self._working == 0:
                sys.setswitchinterval(self._usual)


SHORT_TURNS = ShortTurns()
"""Those of this process."""


def short_turns() -> contextlib.AbstractContextManager[None]:
    """For threads of this process beside the loop: within it the loop gets the interpreter from them soon."""
    return SHORT_TURNS.take()
