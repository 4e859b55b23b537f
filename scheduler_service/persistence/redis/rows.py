"""How the values of the port lie in Redis, and how they are read back; MessagePack without names."""

from typing import Any

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.domain.records import AnyRecord
from scheduler_service.persistence.redis.frames import frame
from scheduler_service.persistence.redis.keys import NUMBER_WIDTH, number, read_number, text
from scheduler_service.ports.catalogue import CatalogueEntry, Revision
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered, StoredJob

_ENTRY_WIDTH = len(CatalogueEntry.__struct_fields__)
_STATE = CatalogueEntry.__struct_fields__.index("state")
_LENGTH = 2  # bytes of a length in front of a value

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_decode_records = msgspec.msgpack.Decoder(tuple[AnyRecord, ...]).decode
read_delivery = msgspec.msgpack.Decoder(Delivery).decode


def pack_job(commit: Commit) -> bytes:
    """A job as `read_job` and `read_entry` take it. A destroyed job waits for nothing."""
    due = commit.due if commit.document is not None else Due()
    entry = msgspec.structs.astuple(commit.entry)
    return encode((*entry, commit.sequence, due.wall, due.steady, commit.document))


def read_job(row: bytes) -> StoredJob:
    """The job of a row."""
    values = _decode(row)
    sequence, wall, steady, document = values[_ENTRY_WIDTH:]
    return StoredJob(_make_entry(values), sequence, document, Due(wall, steady))


def read_entry(row: bytes) -> CatalogueEntry:
    """The catalogue's part of a row."""
    return _make_entry(_decode(row))


def _make_entry(values: list[Any]) -> CatalogueEntry:
    values[_STATE] = JobState(values[_STATE])
    return CatalogueEntry(*values[:_ENTRY_WIDTH])


def pack_definition(commit: Commit) -> bytes:
    """The definition that a turn brings."""
    return encode((commit.entry.job_id, commit.entry.updated_at, commit.definition))


def read_definition(row: bytes) -> bytes:
    """The text of a definition."""
    text: bytes = _decode(row)[2]
    return text


def read_revision(uid: str, revision: int, row: bytes) -> Revision:
    """A definition with the moment from which it held."""
    job_id, created_at, text = _decode(row)
    return Revision(uid, job_id, revision, created_at, text)


def pack_batch(batch: Batch) -> bytes:
    """A turn's records."""
    return encode((batch.uid, batch.job_id, batch.tenant, batch.sequence, batch.at, encode(batch.records)))


def read_batch(row: bytes) -> Batch:
    """The batch of a row."""
    uid, job_id, tenant, sequence, at, records = _decode(row)
    return Batch(uid, job_id, tenant, sequence, at, _decode_records(records))


def batch_key(uid: str, sequence: int) -> bytes:
    """Where a batch lies: in order of (uid, sequence)."""
    return text(uid) + number(sequence)


def answer_key(scope: str, key: str) -> bytes:
    """Where a kept answer lies."""
    return text(scope) + key.encode()


def pack_answer(kept: Remembered) -> bytes:
    """A kept answer. What the server's script reads of it comes first: its moment, and its job's id."""
    job_id = kept.job_id.encode()
    front = number(kept.created_at) + len(job_id).to_bytes(_LENGTH, "big") + job_id
    return front + encode((kept.digest, kept.answer))


def read_answer(scope: str, key: str, row: bytes) -> Remembered:
    """The kept answer of a row."""
    begin = NUMBER_WIDTH + _LENGTH
    end = begin + int.from_bytes(row[NUMBER_WIDTH:begin], "big")
    digest, answer = _decode(row[end:])
    return Remembered(scope, key, digest, answer, read_number(row), row[begin:end].decode())


def pack_pairs(pairs: list[tuple[str, bytes]]) -> bytes:
    """Indexes with the values under which a job stands there, for the server's script."""
    return frame([text for name, value in pairs for text in (name.encode(), value)])
