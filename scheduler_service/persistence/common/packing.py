"""What stores keep, packed, and how it is read again."""

from collections.abc import Iterable

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.leases import LOST
from scheduler_service.domain.parts import LeaseChange, PartEnd, QueuedPart, QueueOptions
from scheduler_service.domain.records import AnyRecord
from scheduler_service.ports.errors import DeliveryUnreadable
from scheduler_service.ports.history import Batch


class PackedBatch(Batch, frozen=True, array_like=True, gc=False):
    """A batch as an array."""

    records: tuple[AnyRecord, ...]


pack = msgspec.msgpack.Encoder().encode
unpack_records = msgspec.msgpack.Decoder(tuple[AnyRecord, ...]).decode
unpack_delivery = msgspec.msgpack.Decoder(Delivery).decode
unpack_options = msgspec.msgpack.Decoder(QueueOptions).decode
unpack_part = msgspec.msgpack.Decoder(QueuedPart).decode
unpack_end = msgspec.msgpack.Decoder(PartEnd).decode


def read_deliveries(rows: Iterable[tuple[bytes, bytes]]) -> list[Delivery]:
    """The deliveries of `rows` (id, content), up to one that is damaged.

    Raises DeliveryUnreadable where that is the first one.
    """
    found: list[Delivery] = []
    for place, content in rows:
        try:
            found.append(_read_delivery(place, content))
        except (msgspec.MsgspecError, ValueError) as error:
            if found:
                break  # the next page begins with it
            raise DeliveryUnreadable(place, error) from error
    return found


def _read_delivery(place: bytes, content: bytes) -> Delivery:
    delivery = unpack_delivery(content)
    if delivery.delivery_id.encode() != place:  # reading would go on behind another one
        raise ValueError(f"it calls itself {delivery.delivery_id!r}")
    return delivery


def write_change(serial: int, what: str, at: int, instance: str) -> str:
    """A lease change as a line; a part's changes are such lines one after the other."""
    return f"{serial} {what} {at} {instance}\n"


def read_changes(lines: str) -> tuple[LeaseChange, ...]:
    """The lease changes of `write_change`, in order."""
    found = [line.split(" ") for line in lines.splitlines()]
    return tuple(
        LeaseChange(int(serial), instance, int(at), what == LOST) for serial, what, at, instance in found
    )


def lost_part_end(instance: str, retries: int) -> PartEnd:
    """The end of a part whose last lease expired."""
    text = f"instance {instance} gave no sign of life within its lease, after {retries} unexpected retries"
    return PartEnd(error="timeout", failure_type=FailureType.TIMEOUT, message=text, instance=instance)
