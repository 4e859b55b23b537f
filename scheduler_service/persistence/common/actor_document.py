"""The actor state of a job: its document, and what of its turns SQL may not have yet."""

from collections.abc import Iterable

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import Due
from scheduler_service.domain.records import AnyRecord
from scheduler_service.domain.wire import Holder
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Remembered

FORMAT = 1


class Unwritten(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A batch that the history has not confirmed."""

    uid: str
    job_id: str
    tenant: str
    sequence: int
    at: int
    records: tuple[AnyRecord, ...]


class ActorDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job's state after the turn `sequence` of `writer`. `document` None: the job is destroyed."""

    format: int
    sequence: int
    writer: Holder
    entry: CatalogueEntry
    due: Due
    document: bytes | None = None
    batches: tuple[Unwritten, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    remembered: tuple[Remembered, ...] = ()


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


def as_unwritten(batches: Iterable[Batch]) -> tuple[Unwritten, ...]:
    """Batches as the document keeps them."""
    return tuple(
        Unwritten(one.uid, one.job_id, one.tenant, one.sequence, one.at, one.records)  # type: ignore[arg-type]
        for one in batches
    )


def as_batches(found: Iterable[Unwritten]) -> list[Batch]:
    """Batches as the history takes them."""
    return [Batch(one.uid, one.job_id, one.tenant, one.sequence, one.at, one.records) for one in found]
