"""Answers that repeated requests are given again: their table, the same in all stores, and its statements."""

import msgspec
import sqlalchemy as sa

from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import Row, Upsert, bounded_text, overwrite
from scheduler_service.persistence.sql.job_tables import metadata
from scheduler_service.ports.state import Remembered

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
