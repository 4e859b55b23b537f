"""What the open executions of all jobs of a process keep in memory together, and how much more they may."""

from typing import Protocol

from scheduler_service.domain.document import Context, Document, PartsOpen, PartsQueued


class CountedJob(Protocol):
    """A job; `open_bytes` is what was counted of it, 0 at first."""

    open_bytes: int


class OpenBytes:
    """What open executions keep and what is made of it, counted by job; `most` is what it may take.

    Of the jobs in memory alone, and of those that keep much (`language.values.LARGE_BYTES`). Those that are
    open when the process starts are counted as they are loaded, and may be more than that.

    `room`: how many bytes more may be kept; it may be negative. `total`: how many are kept.
    """

    __slots__ = ("_most", "room", "total")

    def __init__(self, *, most: int) -> None:
        self._most = most
        self.room = most
        self.total = 0

    def note(self, cached: CountedJob, size: int) -> None:
        """The executions of this job take `size` bytes now."""
        self.total += size - cached.open_bytes
        self.room = self._most - self.total
        cached.open_bytes = size


def weigh_open(document: Document | None) -> int:
    """The bytes that the open executions of a job keep.

    Parameters and responses count twice: a request that is made of them is as large, and is kept until it is
    answered.
    """
    if document is None:
        return 0
    size = 0
    for run in document.head.opens:
        size += len(run.params) + sum(map(len, run.replayed))
    for context in document.contexts.values():
        for kept in context.responses:
            size += len(kept.body or b"")
    return 2 * size + sum(map(_weigh_rest, document.contexts.values()))


def _weigh_rest(context: Context) -> int:
    """The last event, and the bodies of parts."""
    size = 0 if context.told is None else len(context.told.response)
    match context.phase:
        case PartsQueued(ends=ends):
            size += sum(len(end.body or b"") for end in ends if end is not None)
        case PartsOpen(parts=parts):
            size += sum(len(part.end.body or b"") for part in parts if part.end is not None)
        case _:
            pass
    return size
