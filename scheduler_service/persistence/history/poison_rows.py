"""Writes the good rows of a load with a record that the database refuses."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from scheduler_service.persistence.history.buffer import bare_records
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.history import Batch

Write = Callable[[Batch], None]


def save_good_rows(batches: Iterable[Batch], write: Write) -> list[str]:
    """Writes each batch alone: as it is, else with texts that can be encoded, else without its detail.

    The messages name what was left out or changed. Raises StoreUnavailable: try all of it again later.
    """
    return [message for batch in batches for message in [_write_somehow(batch, write)] if message]


def _write_somehow(batch: Batch, write: Write) -> str | None:
    problem: Exception | None = None
    for version in _versions(batch):
        try:
            write(version)
            break
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - a simpler version may pass
            problem = error
    if problem is None:
        return None
    return f"records of {batch.job_id!r} (uid {batch.uid}, turn {batch.sequence}) were changed: {problem}"


def _versions(batch: Batch) -> Iterator[Batch]:
    yield batch
    records = tuple(_clean(record) for record in batch.records)
    yield msgspec.structs.replace(batch, records=records)
    yield msgspec.structs.replace(batch, records=bare_records(records))


def _clean(value: Any) -> Any:
    """The value with texts that UTF-8 can hold: half of a surrogate pair becomes a question mark."""
    if type(value) is str:
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, tuple):
        return tuple(_clean(member) for member in value)
    if isinstance(value, msgspec.Struct):
        fields = {name: _clean(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    return value
