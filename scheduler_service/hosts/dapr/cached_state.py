"""What the store of the dapr host remembers of a job between two turns."""

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.actor_document import (
    FORMAT,
    ActorDocument,
    as_batches,
    as_unwritten,
)
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered


class CachedState:
    """`raw` is the state as it lay in the store when it was `seen` (steady ms), `sequence` its turn.

    `read`: what was found instead, until it is loaded. `began`: the start of the present turn, `tenure` the
    stretch of the node's life in which that was. `batches` are those that the history has not confirmed,
    `deliveries` and `answers` those that SQL did not take. `copies_until`: till then (steady ms) somebody
    who is taken for dead may write over the state.
    """

    __slots__ = (
        "answers",
        "batches",
        "began",
        "copies_until",
        "deliveries",
        "doubts",
        "raw",
        "read",
        "seen",
        "sequence",
        "tenure",
    )

    def __init__(self, *, raw: bytes, began: int, tenure: int, doubts: int) -> None:
        self.raw = raw
        self.began = self.seen = began
        self.tenure = tenure
        self.doubts = doubts
        self.read: bytes | None = None
        self.copies_until = 0
        self.sequence = 0
        self.batches: dict[tuple[str, int], Batch] = {}
        self.deliveries: list[Delivery] = []
        self.answers: list[Remembered] = []

    def envelope(self, commit: Commit, writer: Holder) -> ActorDocument:
        """The document of a turn, with all that the history and SQL may not have yet."""
        own = () if commit.batch is None else (commit.batch,)
        return ActorDocument(
            format=FORMAT,
            sequence=commit.sequence,
            writer=writer,
            entry=commit.entry,
            due=commit.due,
            document=commit.document,
            batches=as_unwritten((*self.batches.values(), *own)),
            deliveries=(*self.deliveries, *commit.deliveries),
            remembered=(*self.answers, *(() if commit.remembered is None else (commit.remembered,))),
        )

    def inherit(self, before: "CachedState", envelope: ActorDocument) -> bool:
        """Takes over what this process knew of its own state, now read as `envelope`.

        Without what a save that never came to be would have told. True: a save came to be of which nobody
        said so, and what it gave to SQL is still to be brought there.
        """
        written = {(batch.uid, batch.sequence) for batch in as_batches(envelope.batches)}
        self.batches = {key: batch for key, batch in before.batches.items() if key in written}
        self.deliveries, self.answers = before.deliveries, before.answers
        has_more = bool(envelope.deliveries or envelope.remembered)
        return has_more and envelope.sequence > before.sequence
