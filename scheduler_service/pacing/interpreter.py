"""How long the interpreter is kept from the loop: by threads, and by the rounds of Python's collector."""

import contextlib
import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

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


FEW, MANY = 5_000, 25_000
"""Young objects of one round: while it finds garbage, and while it finds hardly any.

To free one object of a cycle takes many times as long as to look at one that lives: 57,000 of them were one
round of 116 ms. An execution leaves no cycles, so most rounds free nothing. Where they are five times as rare
they cost half in all: by the time of a round most of what was young is freed already."""

MUCH = 0.1
"""The part of a round's objects that counts as garbage found."""

ROUNDS = 400
"""After so many rounds the collector looks at what has outlived one, too: seldom, as that takes long.

The same in all states: rounds of one state count in the next one."""

NEVER = 1 << 30

Thresholds = tuple[int, int, int]

SEARCHING: Thresholds = (FEW, ROUNDS, 20)
RESTING: Thresholds = (MANY, ROUNDS, 20)

_short: Thresholds | None = None  # while somebody wants short rounds: what was set for that
_usual: Thresholds = SEARCHING  # and what was set before
_short_users = 0
_LOCK = threading.Lock()


def tend_collector() -> None:
    """From now on the collector looks at `FEW` or `MANY` young objects a round, by what it found before."""
    gc.set_threshold(*SEARCHING)
    if _adapt not in gc.callbacks:
        gc.callbacks.append(_adapt)


def _adapt(phase: str, info: dict[str, Any]) -> None:
    """After each round over young objects; leaves alone what others have set."""
    now = gc.get_threshold()
    if phase == "stop" and info["generation"] == 0 and now in (SEARCHING, RESTING):
        wanted = SEARCHING if info["collected"] > now[0] * MUCH else RESTING
        if now != wanted:
            gc.set_threshold(*wanted)
            if _short is not None:  # its thread has begun since `now` was read
                gc.set_threshold(*_short)


@contextlib.contextmanager
def short_collections() -> Iterator[None]:
    """Within it the collector looks at `FEW` young objects, and at no others. Any thread may be in it.

    A body of 1 MiB is up to 350,000 objects, none part of a cycle. Rounds over all of them held the
    interpreter for up to 60 ms; where it did not look at all, one of as long came afterwards, over what the
    whole process had made meanwhile.
    """
    global _short, _usual, _short_users
    with _LOCK:
        if _short is None:
            _usual = gc.get_threshold()
            _short = (min(_usual[0], FEW), NEVER, NEVER)
            gc.set_threshold(*_short)
        _short_users += 1
    try:
        yield
    finally:
        with _LOCK:
            _short_users -= 1
            if _short_users == 0:
                short, _short = _short, None
                if gc.get_threshold() == short:  # else somebody has set it meanwhile
                    gc.set_threshold(*_usual)
