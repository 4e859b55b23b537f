"""How often the history is written, and how the event loop goes on while a thread computes."""

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

# A load of BUSY_BATCHES, and the one after it, is gathered BUSY_INTERVALS times longer: more of what begins
# and ends an execution becomes one row, and the event loop has the interpreter to itself meanwhile.
BUSY_BATCHES = 200
BUSY_INTERVALS = 4


PIECE = 128
"""So many items are about a third of a millisecond of work."""
BREAK_SECONDS = 0.000_1
"""Long enough for another thread to wake up and take the interpreter."""

Item = TypeVar("Item")


def with_breaks(items: Iterable[Item]) -> Iterator[Item]:
    """The items; after each piece of them the other threads run.

    A thread that computes keeps the interpreter for 5 ms, whatever is due in the event loop meanwhile. A
    sleep of no length does not help: it is over before another thread has woken up. Each break costs two
    changes of threads.
    """
    left = iter(items)
    while len(piece := list(islice(left, PIECE))) == PIECE:
        yield from piece
        time.sleep(BREAK_SECONDS)
    yield from piece


def flush_interval_after(batches: int, seconds: float) -> float:
    """For how many seconds a load is gathered after one of `batches`; `seconds` where there was little."""
    return seconds if batches < BUSY_BATCHES else seconds * BUSY_INTERVALS
