"""The input and the result of `decide`: a job with its programs, and the decision."""

from collections.abc import Mapping

import msgspec

from scheduler_service.domain.document import Document
from scheduler_service.domain.effects import Effect
from scheduler_service.domain.records import Record
from scheduler_service.domain.replies import ReachedLimit, Reply, Taken
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.program import Program

SMALL_BYTES = 4_096
"""A body of so many bytes is kept in any case."""
STOPPING = ReachedLimit("", 0, 0)
"""As `held_back`: no execution begins, of jobs of the system neither. What waits stays as it is."""


class Job(msgspec.Struct, frozen=True, gc=False):
    """A job with its programs; `document` None: the job does not exist.

    `programs` has the program of each revision that the document or the event names. `holder` is the process
    that takes this turn and holds the calls that it starts. `is_full`: the open executions of that process
    keep as much as they may, so this one keeps nothing more that is larger than `SMALL_BYTES`. `held_back`:
    by this limit the tenant may begin no more executions now than are `left`, but for jobs of the system:
    what is due beyond them stays due. `STOPPING`: the process stops, and nothing that waits begins in it.
    """

    document: Document | None
    programs: Mapping[int, Program]
    holder: Holder
    is_full: bool = False
    held_back: ReachedLimit | None = None


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The new document (None: the job is gone), the effects after the commit, the records and the reply.

    `counts_more`: it makes large bodies, so what its job keeps is to be weighed before it is taken.
    """

    document: Document | None
    effects: tuple[Effect, ...] = ()
    records: tuple[Record, ...] = ()
    reply: Reply = Taken()
    counts_more: bool = False
