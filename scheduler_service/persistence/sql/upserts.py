"""Inserts of many rows at once, by which the hot writers of history put their rows in."""

import msgspec
import sqlalchemy as sa

Row = tuple[object, ...]


class Upsert(msgspec.Struct, frozen=True):
    """An insert of any number of rows in one statement, in the syntax that SQLite and PostgreSQL share.

    `rare` are columns that are NULL in most rows.
    """

    table: sa.Table
    columns: tuple[str, ...]
    conflict: str
    rare: tuple[str, ...] = ()

    def text(self, values: str) -> str:
        """The statement for rows from `values`: `VALUES …`, or a query."""
        columns = ",".join(f'"{name}"' for name in self.columns)
        return f"INSERT INTO {self.table.name} ({columns}) {values} ON CONFLICT {self.conflict}"


def overwrite(columns: tuple[str, ...]) -> str:
    """For `ON CONFLICT … DO UPDATE SET`: the new row's values replace those of the old one."""
    return ",".join(f'"{name}"=excluded."{name}"' for name in columns)
