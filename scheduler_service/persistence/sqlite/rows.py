"""How the values of the port lie in columns, and how they are read back.

A read returns one row, a JSON array of all that it found: each further row would be a further struggle with
the event loop for the interpreter, up to 5 ms each while the loop is busy.
"""

import hashlib
import sqlite3
from collections.abc import Iterable
from typing import Any

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.domain.records import AnyRecord
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import StoredJob

# What a definition or a change of state alters; some of it is indexed, so it is left alone while it is equal.
FACE = (
    "uid", "tenant", "job_name", "object_id", "creator", "kind", "state", "revision", "labels", "parent_job",
    "parent_execution", "created_at", "updated_at", "system",
)  # fmt: skip

# What every turn may alter.
MOMENTS = ("due_wall", "due_steady", "next_fire")
LEFT = ("sequence", "execute_number", "request_counts", "missed", "live", "waiting", "latest", "document")
TURN = (*MOMENTS, *LEFT)

# The members of a CatalogueEntry in their order, as arguments of json_array.
ENTRY = (
    "job_id, uid, tenant, job_name, object_id, creator, kind, state, revision, json(labels), parent_job, "
    "parent_execution, next_fire, execute_number, request_counts, missed, hex(latest), created_at, "
    "updated_at, live, waiting, system"
)

# In bytes: longer definitions are read one by one, so that what many loads bring along has a bound.
LONGEST = 16_384
_DEFINITION = (
    "iif(document IS NULL, NULL, (SELECT hex(kept.text) FROM definitions AS kept "  # noqa: S608 - a number
    f"WHERE kept.uid = jobs.uid AND kept.revision = jobs.revision AND length(kept.text) <= {LONGEST}))"
)
_STATE = FACE.index("state")
_ENTRY_WIDTH = len(CatalogueEntry.__struct_fields__)

_encode_json = msgspec.json.Encoder().encode
_encode = msgspec.msgpack.Encoder().encode
_decode_records = msgspec.msgpack.Decoder(tuple[AnyRecord, ...]).decode
_decode_delivery = msgspec.msgpack.Decoder(Delivery).decode


def select(connection: sqlite3.Connection, columns: str, source: str, parameters: Iterable[Any]) -> list[Any]:
    """The rows of `SELECT columns FROM source`, where `columns` are what json_array takes (blobs by hex)."""
    inner = f"SELECT json_array({columns}) AS item FROM {source}"  # noqa: S608 - only our own constants
    text = f"SELECT '[' || ifnull(group_concat(item), '') || ']' FROM ({inner})"  # noqa: S608
    rows: list[Any] = msgspec.json.decode(connection.execute(text, tuple(parameters)).fetchall()[0][0])
    return rows


def face_columns(entry: CatalogueEntry) -> tuple[Any, ...]:
    """The values of FACE."""
    return (  # `_value_`: the property `value` is Python, 0.2 µs each
        entry.uid, entry.tenant, entry.job_name, entry.object_id, entry.creator, entry.kind,
        entry.state._value_, entry.revision, _encode_json(entry.labels).decode(), entry.parent_job,
        entry.parent_execution, entry.created_at, entry.updated_at, int(entry.system),
    )  # fmt: skip


def face_digest(columns: tuple[Any, ...]) -> int:
    """Tells whether a face has changed, without reading all of it back: 63 bits of a digest."""
    return int.from_bytes(hashlib.blake2b(_encode(columns), digest_size=8).digest(), "big") >> 1


def with_state(columns: tuple[Any, ...], state: JobState) -> tuple[Any, ...]:
    """The values of FACE of a job that differs in its state alone."""
    return (*columns[:_STATE], state.value, *columns[_STATE + 1 :])


def turn_columns(entry: CatalogueEntry, sequence: int, due: Due, document: bytes | None) -> tuple[Any, ...]:
    """The values of TURN. A destroyed job waits for nothing.

    Bytes as a bytearray: the driver takes that as it is, and asks whether bytes want to be adapted.
    """
    waits = due if document is not None else Due()
    return (
        waits.wall, waits.steady, entry.next_fire, sequence, entry.execute_number, entry.request_counts,
        entry.missed, entry.live, entry.waiting, bytearray(entry.latest),
        None if document is None else bytearray(document),
    )  # fmt: skip


def read_entry(row: list[Any]) -> CatalogueEntry:
    """A catalogue entry from the arguments named by ENTRY."""
    row[7] = JobState(row[7])
    row[16] = bytes.fromhex(row[16])
    row[21] = bool(row[21])
    return CatalogueEntry(*row)


class Loaded(msgspec.Struct, frozen=True, gc=False):
    """A job, and its present definition as posted; None: a long one, a destroyed job's, or there is none."""

    job: StoredJob
    definition: bytes | None


def read_jobs(connection: sqlite3.Connection, job_ids: list[str]) -> dict[str, Loaded]:
    """Those of `job_ids` that the file has."""
    rows = select(
        connection,
        f"{ENTRY}, sequence, due_wall, due_steady, iif(document IS NULL, NULL, hex(document)), {_DEFINITION}",
        "jobs WHERE job_id IN (SELECT value FROM json_each(?))",
        (_encode_json(job_ids).decode(),),
    )
    return {row[0]: _read_job(row) for row in rows}


def _read_job(row: list[Any]) -> Loaded:
    sequence, wall, steady, document, definition = row[_ENTRY_WIDTH:]
    job = StoredJob(
        entry=read_entry(row[:_ENTRY_WIDTH]),
        sequence=sequence,
        document=None if document is None else bytes.fromhex(document),
        due=Due(wall=wall, steady=steady),
    )
    return Loaded(job, None if definition is None else bytes.fromhex(definition))


def batch_row(batch: Batch) -> tuple[Any, ...]:
    """The columns of `unwritten`."""
    return (
        batch.uid, batch.sequence, batch.job_id, batch.tenant, batch.at, _encode(batch.records),
    )  # fmt: skip


def read_batch(row: list[Any]) -> Batch:
    """A batch from uid, job_id, tenant, sequence, at, hex(records)."""
    uid, job_id, tenant, sequence, at, records = row
    return Batch(
        uid=uid,
        job_id=job_id,
        tenant=tenant,
        sequence=sequence,
        at=at,
        records=_decode_records(bytes.fromhex(records)),
    )


def pack_delivery(delivery: Delivery) -> bytes:
    """A delivery as the file keeps it."""
    return _encode(delivery)


def read_delivery(content: str) -> Delivery:
    """A delivery from hex(content)."""
    return _decode_delivery(bytes.fromhex(content))
