"""A job as a host holds it in memory between two turns."""

from collections.abc import Mapping

import msgspec

from scheduler_service.domain.document import Document
from scheduler_service.domain.moments import Due, Now
from scheduler_service.engine.decision import Decision
from scheduler_service.engine.program import Program
from scheduler_service.engine.states import LIVE
from scheduler_service.ports import CatalogueEntry, Commit

NEVER = Due()


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A decided turn with its durable writes: what the job becomes once the store has them.

    `until`: where it was decided ahead of its moment, that moment. `due`: when it has to be looked at, where
    that is not what the store has.
    """

    commit: Commit
    decision: Decision
    programs: Mapping[int, Program]
    until: Now | None = None
    due: Due | None = None


class Held:
    """A job in memory; only who holds the job's lock may touch it.

    `committed` is the sequence that lies in the store (0: no such job, or a destroyed one), `sequence` the
    last one that was used. `doubt` is a turn of which nobody knows whether the store wrote it. `cut_off`:
    the job was loaded with open calls, and has not been told yet which of them are still in flight.
    """

    __slots__ = (
        "committed",
        "cut_off",
        "document",
        "doubt",
        "due",
        "durable_due",
        "entry",
        "job_id",
        "loaded",
        "programs",
        "sequence",
    )

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.sequence = 0
        self.forget()

    def forget(self) -> None:
        """Drops the cached state; the store is asked before the next turn."""
        self.loaded = False
        self.cut_off = False
        self.document: Document | None = None
        self.programs: Mapping[int, Program] = {}
        self.committed = 0
        self.entry: CatalogueEntry | None = None
        self.due = NEVER
        self.durable_due = NEVER
        self.doubt: Prepared | None = None

    @property
    def is_ready(self) -> bool:
        """Whether a turn may be taken on what is held."""
        return self.loaded and self.doubt is None and not self.cut_off

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held but what the store would say: no job, or nothing loaded."""
        return self.document is None and self.doubt is None

    @property
    def is_live(self) -> bool:
        """Whether executions run, so that memory may know more of the job than the store."""
        return self.doubt is not None or (self.document is not None and bool(self.document.contexts))


def is_cut_off(document: Document | None) -> bool:
    """Whether a document just loaded has executions that were running when it was written."""
    return document is not None and any(run.state in LIVE for run in document.head.opens)
