"""How keys and values are written in Redis: names of keys, bytes that sort like their values, packed rows.

An index is a sorted set whose members all have the score 0: a value that sorts, then the job's id. So a page
begins exactly after the last member of the page before it, in each order, whatever was written meanwhile.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.persistence.common.writes import pack, unpack_records
from scheduler_service.ports.catalogue import CatalogueEntry, JobSort, Revision
from scheduler_service.ports.errors import StateUnreadable
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered, StoredJob

PREFIX = b"punctual:"
NUMBER_WIDTH = 8

ORDER_NAMES = {
    JobSort.JOB_ID: "id",
    JobSort.JOB_NAME: "name",
    JobSort.CREATED_AT: "created",
    JobSort.UPDATED_AT: "updated",
    JobSort.NEXT_FIRE_TIME: "next",
}
UNPLANNED = "unplanned"  # the jobs of a partition that will not fire, by id
OPEN = "open"
UIDS = "uids"
DUE_WALL, DUE_STEADY = "due:wall", "due:steady"

_MIDDLE = 1 << 63
_FRAME_LENGTH = 4  # bytes
_ID_LENGTH = 2  # bytes
_ENTRY_WIDTH = len(CatalogueEntry.__struct_fields__)
_STATE = CatalogueEntry.__struct_fields__.index("state")
_unpack = msgspec.msgpack.Decoder().decode
# What bytes raise that are no row of ours: not msgpack, no list, of another width, with another state.
_DAMAGES = (msgspec.DecodeError, TypeError, ValueError, IndexError, UnicodeDecodeError)


def number(value: int) -> bytes:
    """64 bits that sort like numbers. Raises OverflowError beyond them."""
    return (value + _MIDDLE).to_bytes(NUMBER_WIDTH, "big")


def read_number(data: bytes) -> int:
    """The number at the beginning of a member."""
    return int.from_bytes(data[:NUMBER_WIDTH], "big") - _MIDDLE


def text(value: str) -> bytes:
    """A text with an end mark, sorted by its bytes: UTF-8 has no byte 255."""
    return value.encode().replace(b"\0", b"\0\xff") + b"\0"


def order(tenant: str, state: JobState, name: str) -> str:
    """The index of a partition (the jobs of one tenant in one state) in the order called `name`."""
    return f"order:{tenant}:{state.value}:{name}"


def children(parent_job: str) -> str:
    """The index of the jobs that executions of `parent_job` made, by id."""
    return f"children:{parent_job}"


def frame(texts: Iterable[bytes]) -> bytes:
    """Texts one after the other, each after its length: scripts take and return lists in this form."""
    return b"".join([part for text in texts for part in (len(text).to_bytes(_FRAME_LENGTH, "big"), text)])


def unframe(data: bytes) -> list[bytes]:
    """The texts of `frame`."""
    found: list[bytes] = []
    at = 0
    while at < len(data):
        begin = at + _FRAME_LENGTH
        at = begin + int.from_bytes(data[at:begin], "big")
        found.append(data[begin:at])
    return found


def pack_job(commit: Commit) -> bytes:
    """A job as `read_job` and `read_entry` take it. A destroyed job has no alarm."""
    due = commit.due if commit.document is not None else Due()
    entry = msgspec.structs.astuple(commit.entry)
    return pack((*entry, commit.sequence, due.wall, due.steady, commit.document))


def read_job(job_id: str, row: bytes) -> StoredJob:
    """The job of a row. Raises StateUnreadable."""
    try:
        values = _unpack(row)
        sequence, wall, steady, document = values[_ENTRY_WIDTH:]
        return StoredJob(_make_entry(values), sequence, document, Due(wall, steady))
    except _DAMAGES as error:
        raise damaged(job_id) from error


def read_entry(job_id: str, row: bytes) -> CatalogueEntry:
    """The catalogue's part of a row. Raises StateUnreadable."""
    try:
        return _make_entry(_unpack(row))
    except _DAMAGES as error:
        raise damaged(job_id) from error


def read_entries(rows: Iterable[bytes]) -> Iterator[CatalogueEntry]:
    """The catalogue's part of each row that is whole: a damaged one does not hide the others."""
    for row in rows:
        try:
            yield _make_entry(_unpack(row))
        except _DAMAGES:
            continue


def damaged(job_id: str) -> StateUnreadable:
    """The row or the head of this job is not one of ours; the others go on."""
    return StateUnreadable(
        f"job {job_id}: its row in Redis is damaged; stop the service, remove it by HDEL punctual:jobs "
        f"{job_id} and HDEL punctual:heads {job_id}, and create the job again",
        is_public=True,
    )


def _make_entry(values: list[Any]) -> CatalogueEntry:
    values[_STATE] = JobState(values[_STATE])
    return CatalogueEntry(*values[:_ENTRY_WIDTH])


def pack_definition(commit: Commit) -> bytes:
    """The definition of a commit."""
    return pack((commit.entry.job_id, commit.entry.updated_at, commit.definition))


def read_definition(row: bytes) -> bytes:
    """The text of a definition."""
    text: bytes = _unpack(row)[2]
    return text


def read_revision(uid: str, revision: int, row: bytes) -> Revision:
    """A definition with the moment from which it is valid."""
    job_id, created_at, text = _unpack(row)
    return Revision(uid, job_id, revision, created_at, text)


def pack_batch(batch: Batch) -> bytes:
    """A turn's records."""
    return pack((batch.uid, batch.job_id, batch.tenant, batch.sequence, batch.at, pack(batch.records)))


def read_batch(row: bytes) -> Batch:
    """The batch of a row."""
    uid, job_id, tenant, sequence, at, records = _unpack(row)
    return Batch(uid, job_id, tenant, sequence, at, unpack_records(records))


def batch_key(uid: str, sequence: int) -> bytes:
    """The member of a batch, in order of (uid, sequence)."""
    return text(uid) + number(sequence)


def answer_key(scope: str, key: str) -> bytes:
    """The field of a kept answer."""
    return text(scope) + key.encode()


def pack_answer(kept: Remembered) -> bytes:
    """A kept answer. Its moment and its job's id come first: the server's script reads them."""
    job_id = kept.job_id.encode()
    front = number(kept.created_at) + len(job_id).to_bytes(_ID_LENGTH, "big") + job_id
    return front + pack((kept.digest, kept.answer))


def read_answer(scope: str, key: str, row: bytes) -> Remembered:
    """The kept answer of a row."""
    begin = NUMBER_WIDTH + _ID_LENGTH
    end = begin + int.from_bytes(row[NUMBER_WIDTH:begin], "big")
    digest, answer = _unpack(row[end:])
    return Remembered(scope, key, digest, answer, read_number(row), row[begin:end].decode())


def pack_pairs(pairs: list[tuple[str, bytes]]) -> bytes:
    """Indexes with the values of a job in them, for the server's script."""
    return frame([text for name, value in pairs for text in (name.encode(), value)])
