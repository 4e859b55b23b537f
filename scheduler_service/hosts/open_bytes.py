"""What the open executions of all jobs of a process keep in memory together, and how much more they may."""

from typing import Protocol

from scheduler_service.domain.document import Calling, Context, Document, PartsOpen, PartsQueued
from scheduler_service.engine.decision import COUNTED_TIMES, UNBOUNDED


class CountedJob(Protocol):
    """A job; `open_bytes` is what was counted of it, 0 at first."""

    open_bytes: int


class Deciding:
    """A decision on much that is being made, or waits for that. `more`: what its job will keep more."""

    __slots__ = ("before", "more")

    def __init__(self, before: int) -> None:
        self.before = before
        self.more = 0


class OpenBytes:
    """What open executions keep and what is made of it, counted by job; `most` is what it may take.

    Of the jobs in memory, and of those that keep something larger than `engine.decision.SMALL_BYTES`. Those
    that are open when the process starts are counted as they are loaded, and may be more than that.

    `room`: how many bytes more may be kept; it may be negative. Where nothing is kept, one execution has room
    in any case. `total`: how many are kept.
    """

    __slots__ = ("_deciding", "_most", "room", "total")

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._deciding: set[Deciding] = set()
        self.room = UNBOUNDED + most
        self.total = 0

    def note(self, cached: CountedJob, size: int) -> None:
        """The executions of this job take `size` bytes now."""
        self.total += size - cached.open_bytes
        cached.open_bytes = size
        self.room = self._room_beside(self.total)

    def begin(self, cached: CountedJob) -> Deciding:
        """A decision waits for the thread for large work; `end` follows."""
        deciding = Deciding(cached.open_bytes)
        self._deciding.add(deciding)
        return deciding

    def end(self, deciding: Deciding) -> None:
        """It is made, or will not be."""
        self._deciding.discard(deciding)

    def room_now(self) -> int:
        """`room` in the thread for large work: what was decided there counts before the loop has noted it."""
        return self._room_beside(self.total + sum([one.more for one in tuple(self._deciding)]))

    def _room_beside(self, taken: int) -> int:
        return self._most - taken if taken > 0 else UNBOUNDED + self._most


def weigh_open(document: Document | None) -> int:
    """The bytes that the open executions of a job keep, with the requests that are made of them.

    What a body in flight is larger than what it was made of counts once, as do bodies of parts: those that
    are sent, and those that came, which are put together into one response that counts twice.
    """
    if document is None:
        return 0
    size = grown = 0
    for run in document.head.opens:
        size += len(run.params) + sum(map(len, run.replayed))
    for context in document.contexts.values():
        phase = context.phase
        if type(phase) is Calling:
            grown += phase.grown
        for kept in context.responses:
            size += len(kept.body or b"")
        if context.told is not None:
            size += len(context.told.response)
        if context.verdict is not None:
            size += len(context.verdict.body)
    return COUNTED_TIMES * size + grown + sum(map(_weigh_parts, document.contexts.values()))


def _weigh_parts(context: Context) -> int:
    size = 0
    match context.phase:
        case PartsQueued(ends=ends):
            size += sum(len(end.body or b"") for end in ends if end is not None)
        case PartsOpen(parts=parts):
            size += sum(len(part.end.body or b"") for part in parts if part.end is not None)
            size += sum(len(part.request.body or b"") for part in parts if part.request is not None)
        case _:
            pass
    return size
