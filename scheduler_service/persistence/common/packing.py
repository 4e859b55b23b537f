"""Values as every store keeps them: MessagePack; and the ends of queue parts that a store itself decides."""

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.moments import HOUR
from scheduler_service.domain.parts import PartEnd, QueuedPart, QueueOptions
from scheduler_service.domain.records import AnyRecord
from scheduler_service.ports.history import Batch

COMPLETION_KEPT_MS = 24 * HOUR
MAX_COMPLETIONS = 100_000
"""How long, and how many, completed leases are known (ports.queues.Queues.complete)."""


class PackedBatch(Batch, frozen=True, array_like=True, gc=False):
    """A batch as an array."""

    records: tuple[AnyRecord, ...]


pack = msgspec.msgpack.Encoder().encode
unpack_records = msgspec.msgpack.Decoder(tuple[AnyRecord, ...]).decode
unpack_delivery = msgspec.msgpack.Decoder(Delivery).decode
unpack_options = msgspec.msgpack.Decoder(QueueOptions).decode
unpack_part = msgspec.msgpack.Decoder(QueuedPart).decode
unpack_end = msgspec.msgpack.Decoder(PartEnd).decode


def lost_part_end(instance: str, retries: int) -> PartEnd:
    """The end of a part whose last lease expired."""
    text = f"instance {instance} gave no sign of life within its lease, after {retries} unexpected retries"
    return PartEnd(error="timeout", failure_type=FailureType.TIMEOUT, message=text, instance=instance)
