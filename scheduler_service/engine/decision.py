"""The input and the result of `decide`: a job with its programs, and the decision."""

from collections.abc import Mapping

import msgspec

from scheduler_service.domain.document import Document
from scheduler_service.domain.effects import Effect
from scheduler_service.domain.records import Record
from scheduler_service.domain.replies import Reply, Taken
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.program import Program

UNBOUNDED = 1 << 62
"""The room of a turn that is taken in a test or for a reader; where nothing is kept, with all that may be."""
SMALL_BYTES = 4_096
"""A body of so many bytes has room in any case."""
COUNTED_TIMES = 2
"""Parameters and responses count twice: a request made of them is as large, and kept until its answer."""


class Job(msgspec.Struct, frozen=True, gc=False):
    """A job with its programs; `document` None: the job does not exist.

    `programs` has the program of each revision that the document or the event names. `holder` is the process
    that takes this turn and holds the calls that it starts. `room`: how many bytes more the executions of all
    jobs of this process may keep; it may be negative. A body of up to `SMALL_BYTES` may be kept in any case.
    """

    document: Document | None
    programs: Mapping[int, Program]
    holder: Holder
    room: int = UNBOUNDED


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The new document (None: the job is gone), the effects after the commit, the records and the reply.

    `counts_more`: what its job keeps is to be counted before the next turn is decided: it has large bodies.
    """

    document: Document | None
    effects: tuple[Effect, ...] = ()
    records: tuple[Record, ...] = ()
    reply: Reply = Taken()
    counts_more: bool = False
