"""How the values of the port are stored in columns, and how they are read back.

A read returns one row, a JSON array of all that it found: for each further row the thread would have to win
the interpreter back from a busy event loop, which takes up to 5 ms.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.persistence.common.packing import pack, unpack_records
from scheduler_service.persistence.common.pagination import PAGE_BYTES, count_fitting
from scheduler_service.persistence.sql.job_tables import read_entry
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import StoredJob

# Columns that only a definition or a change of state alters. Some are indexed, so they are written only when
# one of them differs; the column `face` has their digest.
FACE = (
    "uid", "tenant", "job_name", "object_id", "creator", "kind", "state", "revision", "labels", "parent_job",
    "parent_execution", "created_at", "updated_at", "system",
)  # fmt: skip

# Columns that every turn may alter: those with an index, and those without.
MOMENTS = ("due_wall", "due_steady", "next_fire")
UNINDEXED = (
    "sequence",
    "execute_number",
    "request_counts",
    "missed",
    "live",
    "waiting",
    "latest",
    "document",
)
TURN = (*MOMENTS, *UNINDEXED)

# The members of a CatalogueEntry in their order, as arguments of json_array.
ENTRY = ", ".join("hex(latest)" if name == "latest" else name for name in CatalogueEntry.__struct_fields__)

LARGE_BYTES = 64 << 10
"""A longer document is read alone: as a text of digits it takes ten times as much for a moment."""

MAX_PREFETCHED_BYTES = 16_384
"""Longer definitions are not loaded with their jobs: what many loads read together has a bound."""

_DEFINITION = (
    "iif(document IS NULL, NULL, (SELECT hex(kept.text) FROM definitions AS kept "  # noqa: S608 - a number
    "WHERE kept.uid = jobs.uid AND kept.revision = jobs.revision "
    f"AND length(kept.text) <= {MAX_PREFETCHED_BYTES}))"
)
_TURN_OF_ENTRY = f"{ENTRY}, sequence, due_wall, due_steady"
_SMALL_DOCUMENT = f"iif(document IS NULL, NULL, iif(length(document) > {LARGE_BYTES}, '', hex(document)))"
_STATE = FACE.index("state")
_ENTRY_WIDTH = len(CatalogueEntry.__struct_fields__)
_LATEST = CatalogueEntry.__struct_fields__.index("latest")

_encode_json = msgspec.json.Encoder().encode


def select(connection: sqlite3.Connection, columns: str, source: str, parameters: Iterable[Any]) -> list[Any]:
    """The rows of `SELECT columns FROM source`, where `columns` are what json_array takes (blobs by hex)."""
    inner = f"SELECT json_array({columns}) AS item FROM {source}"  # noqa: S608 - only our own constants
    text = f"SELECT '[' || ifnull(group_concat(item), '') || ']' FROM ({inner})"  # noqa: S608
    rows: list[Any] = msgspec.json.decode(connection.execute(text, tuple(parameters)).fetchall()[0][0])
    return rows


def select_page(
    connection: sqlite3.Connection, columns: str, blob: str, source: str, parameters: Sequence[Any]
) -> list[Any]:
    """As `select`, but no more rows than have `PAGE_BYTES` in their column `blob`, and at least one.

    `source` has an order, and ends with `LIMIT ?`.
    """
    sizes = select(connection, f"length({blob})", source, parameters)
    count = count_fitting(length for (length,) in sizes)
    return select(connection, columns, source, (*parameters[:-1], count)) if count else []


def face_columns(entry: CatalogueEntry) -> tuple[Any, ...]:
    """The values of FACE."""
    return (  # `_value_`: the property `value` is Python, 0.2 µs each
        entry.uid, entry.tenant, entry.job_name, entry.object_id, entry.creator, entry.kind,
        entry.state._value_, entry.revision, _encode_json(entry.labels).decode(), entry.parent_job,
        entry.parent_execution, entry.created_at, entry.updated_at, int(entry.system),
    )  # fmt: skip


def face_digest(columns: tuple[Any, ...]) -> int:
    """63 bits of a digest: shows a change of these columns without reading all of them back."""
    return int.from_bytes(hashlib.blake2b(pack(columns), digest_size=8).digest(), "big") >> 1


def with_state(columns: tuple[Any, ...], state: JobState) -> tuple[Any, ...]:
    """The values of FACE of a job that differs in its state alone."""
    return (*columns[:_STATE], state._value_, *columns[_STATE + 1 :])


def turn_columns(entry: CatalogueEntry, sequence: int, due: Due, document: bytes | None) -> tuple[Any, ...]:
    """The values of TURN. A destroyed job has no alarm.

    Bytes as a bytearray: the driver takes that as it is, while it looks for an adapter of bytes.
    """
    alarm = due if document is not None else Due()
    return (
        alarm.wall, alarm.steady, entry.next_fire, sequence, entry.execute_number, entry.request_counts,
        entry.missed, entry.live, entry.waiting, bytearray(entry.latest),
        None if document is None else bytearray(document),
    )  # fmt: skip


class LoadedRow(msgspec.Struct, frozen=True, gc=False):
    """A job and its current definition as posted; None: too long, missing, or the job is destroyed."""

    job: StoredJob
    definition: bytes | None


def read_jobs(
    connection: sqlite3.Connection, job_ids: list[str], *, most_bytes: int = PAGE_BYTES
) -> tuple[dict[str, LoadedRow], set[str]]:
    """Those of `job_ids` that the file has, and the ids of those that are to be read later.

    What is large is read alone, and of that at most `most_bytes` and one more.
    """
    found: dict[str, LoadedRow] = {}
    later: set[str] = set()
    for row in _select_jobs(connection, job_ids):
        if row[-2] != "":
            found[row[0]] = _read_job(row)
        elif most_bytes <= 0:
            later.add(row[0])
        elif (job := _read_large_job(connection, row[0])) is not None:
            found[row[0]] = job
            most_bytes -= len(job.job.document or b"")
    return found, later


def _select_jobs(connection: sqlite3.Connection, job_ids: list[str]) -> list[Any]:
    return select(
        connection,
        f"{_TURN_OF_ENTRY}, {_SMALL_DOCUMENT}, {_DEFINITION}",
        "jobs WHERE job_id IN (SELECT value FROM json_each(?))",
        (_encode_json(job_ids).decode(),),
    )


def _read_job(row: list[Any]) -> LoadedRow:
    document, definition = row[-2:]
    packed = None if document is None else bytes.fromhex(document)
    return LoadedRow(_make_job(row, packed), None if definition is None else bytes.fromhex(definition))


def _read_large_job(connection: sqlite3.Connection, job_id: str) -> LoadedRow | None:
    """All of it anew, as the job may have had a turn meanwhile; without hexadecimal digits."""
    text = f"SELECT json_array({_TURN_OF_ENTRY}), document FROM jobs WHERE job_id = ?"  # noqa: S608 - our own
    rows = connection.execute(text, (job_id,)).fetchall()
    return LoadedRow(_make_job(msgspec.json.decode(rows[0][0]), rows[0][1]), None) if rows else None


def _make_job(row: list[Any], document: bytes | None) -> StoredJob:
    sequence, wall, steady = row[_ENTRY_WIDTH : _ENTRY_WIDTH + 3]
    row[_LATEST] = bytes.fromhex(row[_LATEST])
    return StoredJob(read_entry(row[:_ENTRY_WIDTH]), sequence, document, Due(wall=wall, steady=steady))


def batch_row(batch: Batch) -> tuple[Any, ...]:
    """The columns of `unwritten`."""
    return (
        batch.uid, batch.sequence, batch.job_id, batch.tenant, batch.at, pack(batch.records),
    )  # fmt: skip


def read_batch(row: list[Any]) -> Batch:
    """A batch from uid, job_id, tenant, sequence, at, hex(records)."""
    uid, job_id, tenant, sequence, at, records = row
    return Batch(uid, job_id, tenant, sequence, at, unpack_records(bytes.fromhex(records)))
