"""The actor state of a job: its document, and what of its turns SQL may not have yet."""

from collections.abc import Iterable

import msgspec

from scheduler_service.domain.effects import Delivery, QueueWrite
from scheduler_service.domain.moments import Due
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.writes import PackedBatch
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Remembered

FORMAT = 1


class ActorDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job's state after the turn `sequence` of `writer`. `document` None: the job is destroyed.

    `batches`: those that the history has not confirmed. `queued`: what the turn wants in the queues.
    `is_first`: the job's first turn, which lies with its claim alone: no sidecar was asked to write it.
    `qos`: as a Commit has it; older programs write none. `messages`: the answers to the latest messages.
    """

    format: int
    sequence: int
    writer: Holder
    entry: CatalogueEntry
    due: Due
    document: bytes | None = None
    batches: tuple[PackedBatch, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    remembered: tuple[Remembered, ...] = ()
    queued: tuple[QueueWrite, ...] = ()
    is_first: bool = False
    qos: int = 1
    messages: tuple[Remembered, ...] = ()


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(ActorDocument)


def write_actor_document(actor: ActorDocument) -> bytes:
    """The packed document."""
    return _ENCODER.encode(actor)


def read_actor_document(raw: bytes) -> ActorDocument:
    """The document in `raw`. Raises StoreUnavailable: damaged, or written by a newer program."""
    try:
        actor = _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreUnavailable(f"the actor state of a job cannot be read: {error}") from error
    if actor.format > FORMAT:
        raise StoreUnavailable(
            f"the actor state has format {actor.format}, this program knows {FORMAT}; install a newer one"
        )
    return actor


def pack_batches(batches: Iterable[Batch]) -> tuple[PackedBatch, ...]:
    """Batches as the document keeps them."""
    return tuple(PackedBatch(*msgspec.structs.astuple(one)) for one in batches)


def unpack_batches(found: Iterable[PackedBatch]) -> list[Batch]:
    """Batches as the history takes them."""
    return [Batch(*msgspec.structs.astuple(one)) for one in found]
