"""What the open executions of all jobs of a process keep in memory together, and how much more they may."""

from typing import Protocol

from scheduler_service.domain.document import Calling, Context, Document, PartsOpen, PartsQueued

COUNTED_TIMES = 2
"""Parameters and responses count twice: a request made of them is as large, and kept until its answer."""


class CountedJob(Protocol):
    """A job; `open_bytes` is what was counted of it, 0 at first."""

    open_bytes: int


class OpenBytes:
    """What open executions keep and what is made of it, counted by job; `most` is what it may take.

    Of the jobs in memory, and of those that keep something larger than `engine.decision.SMALL_BYTES`. Those
    that are open when the process starts are counted as they are loaded, and may be more than that.

    `total`: how many are kept. `is_full`: no job may keep more. Where nothing is kept one turn has room in
    any case: else what is larger than the limit would wait for ever.
    """

    __slots__ = ("_most", "is_full", "total")

    def __init__(self, *, most: int) -> None:
        self._most = most
        self.total = 0
        self.is_full = False

    def note(self, cached: CountedJob, size: int) -> None:
        """The executions of this job take `size` bytes now."""
        self.total += size - cached.open_bytes
        cached.open_bytes = size
        self.is_full = self.total >= self._most

    def admit(self, cached: CountedJob, size: int) -> bool:
        """Notes that they take `size` bytes; False: there is no room for what is more of it than before."""
        more = size - cached.open_bytes
        if more > 0 and self.total > 0 and self.total + more > self._most:
            return False
        self.note(cached, size)
        return True


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
