"""An instance as a row of the shared registry: what one node writes of it, and another one reads."""

import msgspec

from scheduler_service.domain.services import InstancePlace
from scheduler_service.ports.shared_registry import SharedInstance
from scheduler_service.services.instances import Instance

FORMAT = 1
"""Raised when a row says something that a program of today would misread; an older one is read as it is."""


class RowUnreadable(Exception):
    """The row is damaged, or a newer program wrote it."""


class Written(msgspec.Struct, frozen=True):
    """An instance as its row has it, and the number of that writing."""

    instance: Instance
    number: int


class _Format(msgspec.Struct):
    format: int = FORMAT


class _Row(msgspec.Struct, frozen=True):
    """What the columns of the row do not say, named as in `Instance`."""

    address: str
    format: int = FORMAT
    tags: tuple[str, ...] = ()
    capacity: int | None = None
    description: str = ""
    draining: bool = False
    drains_by_word: bool = False
    declares: bytes = b""
    said: int = 0


_pack = msgspec.msgpack.Encoder().encode
_unpack_format = msgspec.msgpack.Decoder(_Format).decode
_unpack = msgspec.msgpack.Decoder(_Row).decode


def row_of(instance: Instance, left_at: int | None = None) -> SharedInstance:
    """The row of an instance that has registered, or has deregistered at `left_at` (steady ms)."""
    content = _Row(
        address=instance.address,
        tags=instance.tags,
        capacity=instance.capacity,
        description=instance.description,
        draining=instance.draining,
        drains_by_word=instance.drains_by_word,
        declares=instance.declares,
        said=instance.said,
    )
    return SharedInstance(*place_of(instance), _pack(content), instance.seen, left_at)


def instance_of(row: SharedInstance) -> Instance:
    """The instance of a row, with a load of 0. Raises RowUnreadable."""
    try:
        written = _unpack_format(row.content).format
        if written > FORMAT:
            raise RowUnreadable(f"it has format {written}, this program knows {FORMAT}; install a newer one")
        content = _unpack(row.content)
    except msgspec.DecodeError as error:
        raise RowUnreadable(str(error)) from error
    return Instance(
        service=row.service,
        tenant=row.tenant,
        instance_id=row.instance_id,
        address=content.address,
        tags=content.tags,
        capacity=content.capacity,
        description=content.description,
        draining=content.draining,
        drains_by_word=content.drains_by_word,
        seen=row.seen_at,
        declares=content.declares,
        said=content.said,
    )


def place_of(instance: Instance) -> InstancePlace:
    """What identifies it."""
    return instance.tenant, instance.service, instance.instance_id


def is_later(known: Instance, found: Instance, before: Written | None) -> bool:
    """Whether what it said here of its draining is later than what was written elsewhere."""
    is_unwritten = before is not None and drains(known) != drains(before.instance)
    return known.said > found.said or (known.said == found.said and is_unwritten)


def drains(instance: Instance) -> tuple[bool, bool]:
    """What it said of its draining."""
    return instance.draining, instance.drains_by_word
