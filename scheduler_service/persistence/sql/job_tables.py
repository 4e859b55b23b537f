"""The tables of jobs, their definitions and answers that repeated requests are given again; in all databases.

`state.db` has the columns without the indexes by which a cluster finds what a dead node left.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import JobState
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import WHERE, Row, Upsert, bounded_text, overwrite
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.state import Remembered

metadata = sa.MetaData()

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("job_id", bounded_text(260), primary_key=True),
    sa.Column("uid", bounded_text(64), nullable=False),
    sa.Column("tenant", bounded_text(128), nullable=False),
    sa.Column("job_name", bounded_text(4_000), nullable=False),
    sa.Column("object_id", sa.Text),
    sa.Column("creator", sa.Text, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("parent_job", bounded_text(260)),
    sa.Column("parent_execution", sa.BigInteger),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("system", sa.SmallInteger, nullable=False),
    sa.Column("next_fire", sa.BigInteger),
    sa.Column("execute_number", sa.BigInteger, nullable=False),
    sa.Column("request_counts", sa.BigInteger, nullable=False),
    sa.Column("missed", sa.BigInteger, nullable=False),
    sa.Column("live", sa.BigInteger, nullable=False),
    sa.Column("waiting", sa.BigInteger, nullable=False),
    sa.Column("latest", sa.LargeBinary, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("due_wall", sa.BigInteger),
    sa.Column("due_steady", sa.BigInteger),
    sa.Column("node", sa.String(64), nullable=False),
    sa.Column("boot", sa.String(64), nullable=False),
    sa.Column("claimed_at", sa.BigInteger, nullable=False),
    # The state after the latest turn; NULL: it lies where 0.1.0 has written it. No list reads it.
    sa.Column("turn_state", sa.LargeBinary),
    # Whether the job had no turn since it was created without its actor: no reminder guards it.
    sa.Column("is_first", sa.SmallInteger, nullable=False, server_default="0"),
)
# It stays in the row: else each claim would write a second table and its index.
IN_THE_ROW = "ALTER TABLE jobs ALTER COLUMN turn_state SET STORAGE MAIN, SET (toast_tuple_target = 8160)"
_put_in_the_row = sa.DDL(IN_THE_ROW)  # type: ignore[no-untyped-call]
sa.event.listen(jobs, "after_create", _put_in_the_row.execute_if(dialect="postgresql"))


def _index_where_set(name: str, *columns: sa.ColumnElement[Any]) -> None:
    """Of the rows alone that have the first column: each claim writes a row anew, with all of its indexes."""
    condition = f"{columns[0].name} IS NOT NULL"
    sa.Index(name, *columns, sqlite_where=sa.text(condition), info={WHERE: sa.text(condition)})


_index_where_set("jobs_due_wall", jobs.c.due_wall)
_index_where_set("jobs_due_steady", jobs.c.due_steady)
sa.Index("jobs_next_fire", jobs.c.next_fire)  # lists read those without a moment by it, too
sa.Index("jobs_uid", jobs.c.uid)
sa.Index("jobs_state", jobs.c.tenant, jobs.c.state, jobs.c.job_id)
_index_where_set("jobs_parent", jobs.c.parent_job, jobs.c.parent_execution, jobs.c.job_id)
_is_first = sa.text("is_first = 1")
sa.Index("jobs_first", jobs.c.due_wall, jobs.c.job_id, sqlite_where=_is_first, info={WHERE: _is_first})
# By it the sweep finds what a dead node left: its jobs that run, then those that it claimed last.
sa.Index("jobs_held", jobs.c.node, jobs.c.boot, jobs.c.live, jobs.c.claimed_at)

definitions = sa.Table(
    "definitions",
    metadata,
    sa.Column("uid", bounded_text(64), primary_key=True),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("job_id", bounded_text(260), nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("text", sa.LargeBinary, nullable=False),
)
sa.Index("definitions_job", definitions.c.job_id)

_MEMBERS = CatalogueEntry.__struct_fields__
ENTRY = tuple(jobs.c[name] for name in _MEMBERS)
"""The columns of an entry, as `read_entry` takes them."""

_STATE, _LABELS, _LATEST, _SYSTEM = map(_MEMBERS.index, ("state", "labels", "latest", "system"))
_encode = msgspec.json.Encoder().encode
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode


def entry_row(entry: CatalogueEntry) -> list[Any]:
    """The values of the columns ENTRY."""
    row: list[Any] = list(msgspec.structs.astuple(entry))
    row[_STATE] = entry.state.value
    row[_LABELS] = _encode(entry.labels).decode()
    row[_SYSTEM] = int(entry.system)
    return row


def read_entry(row: Sequence[Any]) -> CatalogueEntry:
    """The entry of a row with the columns ENTRY."""
    values = list(row)
    values[_STATE] = JobState(values[_STATE])
    values[_LABELS] = _decode_labels(values[_LABELS])
    values[_LATEST] = bytes(values[_LATEST])
    values[_SYSTEM] = bool(values[_SYSTEM])
    return CatalogueEntry(*values)


remembered = sa.Table(
    "remembered",
    metadata,
    sa.Column("scope", bounded_text(300), primary_key=True),
    sa.Column("key", bounded_text(1_000, at_least=460), primary_key=True),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=False),
    sa.Column("job_id", bounded_text(260), nullable=False),
)
sa.Index("remembered_created", remembered.c.created_at)
sa.Index("remembered_job", remembered.c.job_id)

ANSWERS = Upsert(
    table=remembered,
    columns=Remembered.__struct_fields__,
    key=("scope", "key"),
    changes=overwrite(*Remembered.__struct_fields__[2:]),
)
_row = remembered.c
_OF_KEY = (_row.scope == sa.bindparam("scope"), _row.key == sa.bindparam("key"))
_FIRST = msgspec.structs.replace(ANSWERS, changes=())
_FORGET_OLD = sa.delete(remembered).where(*_OF_KEY, _row.created_at < sa.bindparam("since"))
_FORGET_ALL = sa.delete(remembered).where(_row.created_at < sa.bindparam("before"))
_RECALL = sa.select(*(_row[name] for name in Remembered.__struct_fields__)).where(
    *_OF_KEY, _row.created_at >= sa.bindparam("since")
)


def recall(connection: sa.Connection, scope: str, key: str, since: int) -> Remembered | None:
    """The answer kept under this key since `since` (wall ms)."""
    row = connection.execute(_RECALL, {"scope": scope, "key": key, "since": since}).first()
    return None if row is None else Remembered(*row)


def remember_first(connection: sa.Connection, dialect: Dialect, kept: Remembered, since: int) -> bool:
    """Writes it in the open transaction; False: one of its key was kept at `since` or later, and stays."""
    connection.execute(_FORGET_OLD, {"scope": kept.scope, "key": kept.key, "since": since})
    return dialect.insert_many(connection, _FIRST, [answer_of(kept)]) == 1


def forget_answers(connection: sa.Connection, before: int) -> None:
    """Removes those that were kept before this moment (wall ms), in the open transaction."""
    connection.execute(_FORGET_ALL, {"before": before})


def answer_of(kept: Remembered) -> Row:
    """The row of an answer."""
    return msgspec.structs.astuple(kept)
