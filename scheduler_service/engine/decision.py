"""What `decide` takes and gives: the job with its programs, and the decision."""

from collections.abc import Mapping

import msgspec

from scheduler_service.domain.document import Document
from scheduler_service.domain.effects import Effect
from scheduler_service.domain.records import Record
from scheduler_service.domain.replies import Reply, Taken
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.program import Program


class Job(msgspec.Struct, frozen=True, gc=False):
    """A job as a turn holds it: `document` None means that there is none.

    `programs` has the program of each revision that the document or the event names. `holder` is the node
    and the start of its process that takes this turn: the calls of this turn are its own.
    """

    document: Document | None
    programs: Mapping[int, Program]
    holder: Holder


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The new document (None: no job any more), what to do after the commit, what to record, the answer."""

    document: Document | None
    effects: tuple[Effect, ...] = ()
    records: tuple[Record, ...] = ()
    reply: Reply = Taken()
