"""The catalogue of jobs over `state.db`, in the lister's thread.

SQLAlchemy makes the statements; the driver runs them. A read returns one row, a JSON array of all that it
found: for each further row the thread would wait for the interpreter, up to 5 ms while the event loop is
busy.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from scheduler_service.persistence.common.pagination import weigh_labels
from scheduler_service.persistence.sql import sqlite as expressions
from scheduler_service.persistence.sql.job_catalogue import JobCatalogue
from scheduler_service.persistence.sql.job_selections import FORMS_KEPT, Read, Statement
from scheduler_service.persistence.sql.job_tables import jobs
from scheduler_service.persistence.sqlite.reader import Reader
from scheduler_service.persistence.sqlite.rows import ENTRY, read_entry
from scheduler_service.ports.catalogue import CatalogueEntry

assert expressions  # it says how SQLite writes what statements contain
_DIALECT = sqlite.dialect(paramstyle="named")
_LABELS = CatalogueEntry.__struct_fields__.index("labels")
_BEFORE = "sum(length(labels)) OVER (ROWS UNBOUNDED PRECEDING) - length(labels)"
"""The characters of labels in the rows before."""


class SqliteCatalogue(JobCatalogue):
    """catalogue.Catalogue over the table of jobs."""

    def __init__(self, *, reader: Reader) -> None:
        self._reader = reader

    async def read_entries(
        self, reads: Sequence[Read], most: int, room: int | None = None, *, with_labels: bool = True
    ) -> list[CatalogueEntry]:

        def read(connection: sqlite3.Connection) -> list[Any]:
            rows: list[Any] = []
            left = room
            for statement, values in reads:
                if len(rows) < most and (left is None or left > 0):
                    query = _compile_entries(statement, is_bounded=left is not None, with_labels=with_labels)
                    further = {} if left is None else {"room": left}
                    found = query.fetch(connection, {**values, **further, "limit": most - len(rows)})
                    rows += found
                    if left is not None:
                        left -= sum(weigh_labels(row[_LABELS]) for row in found)
            return rows

        return [read_entry(row) for row in await self._reader.read(read)]

    async def read_rows(self, reads: Sequence[Read]) -> list[Sequence[Any]]:

        def read(connection: sqlite3.Connection) -> list[Sequence[Any]]:
            found: list[Sequence[Any]] = []
            for statement, values in reads:
                query = _compile_rows(statement)
                rows = query.fetch(connection, values)
                for place in query.binary:
                    for row in rows:
                        row[place] = bytes.fromhex(row[place])
                found.append(rows)
            return found

        return await self._reader.read(read)


class _Query(msgspec.Struct, frozen=True):
    """The text of a statement with its constants, and the places of bytes among its columns."""

    text: str
    constants: dict[str, Any]
    binary: tuple[int, ...] = ()

    def fetch(self, connection: sqlite3.Connection, values: Mapping[str, Any]) -> list[Any]:
        """The rows; bytes are texts of hexadecimal digits, as JSON can hold them."""
        found = connection.execute(self.text, {**self.constants, **values}).fetchall()
        rows: list[Any] = msgspec.json.decode(found[0][0])
        return rows


@lru_cache(FORMS_KEPT)
def _compile_entries(statement: Statement, *, is_bounded: bool, with_labels: bool) -> _Query:
    columns = ENTRY if with_labels else ENTRY.replace("json(labels)", "json('{}')")
    return _compile(statement, sa.literal_column(f"json_array({columns})"), is_bounded=is_bounded)


@lru_cache(FORMS_KEPT)
def _compile_rows(statement: Statement) -> _Query:
    columns = list(statement.selected_columns)
    binary = tuple(place for place, column in enumerate(columns) if isinstance(column.type, sa.LargeBinary))
    item = sa.func.json_array(
        *(sa.func.hex(column) if place in binary else column for place, column in enumerate(columns))
    )
    return _compile(statement, item, binary)


def _compile(
    statement: Statement,
    item: sa.ColumnElement[Any],
    binary: tuple[int, ...] = (),
    *,
    is_bounded: bool = False,
) -> _Query:
    columns = [item.label("item"), *([jobs.c.labels] if is_bounded else [])]
    inner = statement.with_only_columns(*columns, maintain_column_froms=True)
    compiled = inner.compile(dialect=_DIALECT)
    constants = {name: value for name, value in compiled.params.items() if value is not None}
    source = f"({compiled})"
    if is_bounded:
        source = f"(SELECT item, {_BEFORE} AS before FROM {source}) WHERE before < :room"  # noqa: S608
    text = f"SELECT '[' || ifnull(group_concat(item), '') || ']' FROM {source}"  # noqa: S608
    return _Query(text, constants, binary)
