"""What stores keep, packed, and how it is read again; also what 0.1.0 and 0.2.0 have kept."""

from collections.abc import Iterable

import msgspec

from scheduler_service.domain.effects import Delivery, QueueWrite
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.leases import LOST
from scheduler_service.domain.moments import Due
from scheduler_service.domain.step_parts import LeaseChange, PartEnd, QueuedPart, QueueOptions
from scheduler_service.domain.wire import Flights, Holder
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.errors import DeliveryUnreadable, StoreUnavailable
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Remembered

pack = msgspec.msgpack.Encoder().encode
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


FORMAT = 2


class RowState(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """`document` None: the job is destroyed. `batches`: those that the history has not confirmed.

    `messages`: the answers to the latest messages. `flights`: the calls that nodes which gave the job away
    still have in flight, and whose answers they deliver. `is_apart`: contexts of the job may lie elsewhere.
    Later formats may add members at the end.
    """

    format: int = FORMAT
    document: bytes | None
    batches: tuple[Batch, ...] = ()
    messages: tuple[Remembered, ...] = ()
    flights: Flights = ()
    is_apart: bool = False


class OldState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a job after the turn `sequence` of `writer`, as nodes of 0.1.0 have written it.

    `deliveries`, `remembered`, `queued`: what the shared tables may not have of it.
    """

    format: int
    sequence: int
    writer: Holder
    entry: CatalogueEntry
    due: Due
    document: bytes | None = None
    batches: tuple[Batch, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    remembered: tuple[Remembered, ...] = ()
    queued: tuple[QueueWrite, ...] = ()
    messages: tuple[Remembered, ...] = ()


_ROWS = msgspec.msgpack.Decoder(RowState)
_OLD = msgspec.msgpack.Decoder(OldState)
OLD_FORMAT = 1
_MAPS = {bytes([first]) for first in (*range(0x80, 0x90), 0xDE, 0xDF)}


def read_row_state(raw: bytes) -> RowState:
    """The state in `raw`. Raises StoreUnavailable: damaged, or written by a newer program."""
    try:
        state = _ROWS.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreUnavailable(f"the state in the row of a job cannot be read: {error}") from error
    _check_format(state.format, FORMAT)
    return state


def is_old_state(raw: bytes) -> bool:
    """Whether 0.1.0 or 0.2.0 have written it: as a map of MessagePack, not as an array."""
    return raw[:1] in _MAPS


def read_old_state(raw: bytes) -> OldState:
    """The state in `raw`, which 0.1.0 has written. Raises StoreUnavailable: damaged, or another format."""
    try:
        old = _OLD.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreUnavailable(f"the actor state of a job cannot be read: {error}") from error
    _check_format(old.format, OLD_FORMAT)
    return old


def _check_format(found: int, known: int) -> None:
    if found > known:
        raise StoreUnavailable(
            f"the state of a job has format {found}, this program knows {known}; install a newer one"
        )
