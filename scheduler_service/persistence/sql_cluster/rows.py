"""How a catalogue entry lies in the shared table, and how it is read back."""

from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.persistence.sql_cluster.schema import jobs
from scheduler_service.ports.catalogue import CatalogueEntry

_MEMBERS = CatalogueEntry.__struct_fields__
ENTRY = tuple(jobs.c[name] for name in _MEMBERS)


def entry_values(entry: CatalogueEntry, due: Due) -> dict[str, Any]:
    """The columns of an entry; a destroyed job waits for nothing."""
    values = {name: getattr(entry, name) for name in _MEMBERS}
    if entry.state is JobState.DESTROYED:
        due = Due()
    return values | {
        "state": entry.state.value,
        "labels": msgspec.json.encode(entry.labels).decode(),
        "system": int(entry.system),
        "due_wall": due.wall,
        "due_steady": due.steady,
    }


def read_entry(row: sa.Row[Any]) -> CatalogueEntry:
    """The entry of a row that has its columns."""
    values: dict[str, Any] = {name: row._mapping[name] for name in _MEMBERS}
    values["state"] = JobState(values["state"])
    values["labels"] = msgspec.json.decode(values["labels"], type=dict[str, str])
    values["system"] = bool(values["system"])
    values["latest"] = bytes(values["latest"])
    return CatalogueEntry(**values)
