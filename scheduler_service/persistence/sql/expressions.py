"""Expressions that SQL databases write differently; the file of each dialect says how, by `@compiles`."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.functions import FunctionElement


class Unindexed(FunctionElement[Any]):
    """The column, with no index used for it: by this one SQLite would sort nearly all jobs for a page."""

    inherit_cache = True

    def __init__(self, column: sa.ColumnElement[Any]) -> None:
        super().__init__(column)
        self.type = column.type


class Member(FunctionElement[str]):
    """`Member(object, key)`: the text that a JSON object has under a key, or NULL."""

    type = sa.Text()
    inherit_cache = True


class Like(FunctionElement[Any]):
    """`Like(column, pattern)`, a backslash escapes; ASCII letters match in upper and lower case."""

    inherit_cache = True


class IsIn(FunctionElement[Any]):
    """`IsIn(column, texts)`: whether the column is among the texts of a JSON array; found by its index."""

    inherit_cache = True


class StoredSize(FunctionElement[int]):
    """The bytes that a value takes where it is stored."""

    type = sa.BigInteger()
    inherit_cache = True


class JsonRows(FunctionElement[Any]):
    """A subquery with the rows of a JSON array of arrays: [text], [text, number], [text, number, number]."""

    inherit_cache = True


def json_rows(rows: sa.ColumnElement[str]) -> sa.TableValuedAlias:
    """The rows of the JSON text `rows` as a table with the columns `name`, `number` and `other`."""
    return JsonRows(rows).table_valued(
        sa.column("name", sa.Text), sa.column("number", sa.BigInteger), sa.column("other", sa.BigInteger)
    )
