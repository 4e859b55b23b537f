"""Expressions that SQL databases write differently; the file of each dialect says how."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
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


class AnyMemberLike(FunctionElement[Any]):
    """`AnyMemberLike(object, pattern)`: whether a value of a JSON object of texts is `Like` the pattern."""

    inherit_cache = True


class NewestState(FunctionElement[str]):
    """`NewestState(latest)`: the state of the newest execution that a job's `latest` has, or NULL."""

    type = sa.Text()
    inherit_cache = True


class IsIn(FunctionElement[Any]):
    """`IsIn(column, texts)`: whether the column is among the texts of a JSON array; found by its index."""

    inherit_cache = True


class Contains(FunctionElement[Any]):
    """`Contains(column, part)`: whether the bytes of a column have those of `part` among them."""

    inherit_cache = True


class TextBytes(FunctionElement[bytes]):
    """`TextBytes(column)`: the bytes of a text, also of one that is damaged."""

    type = sa.LargeBinary()
    inherit_cache = True


class StoredSize(FunctionElement[int]):
    """The bytes that a value takes where it is stored."""

    type = sa.BigInteger()
    inherit_cache = True


class SumBefore(FunctionElement[int]):
    """`SumBefore(number, *order)`: its sum over the rows before, of a subquery that is in this order."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(SumBefore)
def _sum_before(element: SumBefore, compiler: SQLCompiler, **options: Any) -> str:
    """The rows are not sorted again: that would take all of them at once."""
    number = compiler.process(next(iter(element.clauses)), **options)
    return f"sum({number}) OVER (ROWS UNBOUNDED PRECEDING) - {number}"


class JsonLists(FunctionElement[str]):
    """`JsonLists(*columns)`, an aggregate: JSON text, an array with an array of the columns of each row."""

    type = sa.Text()
    inherit_cache = True


class JsonRows(FunctionElement[Any]):
    """A subquery with the rows of a JSON array of arrays: [text], [text, number], [text, number, number]."""

    inherit_cache = True


class IndexSteps(FunctionElement[Any]):
    """`IndexSteps(steps, distinct)`: a subquery with the different values of the first columns of an index.

    `distinct` asks for them, as databases do that go from one to the next by themselves; `steps` is a query
    that does so, for the others.
    """

    inherit_cache = True


def write_as(forms: Mapping[type[FunctionElement[Any]], str], *dialects: str) -> None:
    """How these dialects write expressions, all without a form of their own where none is named.

    In a form `{0}` and `{1}` stand for the arguments, `{every}` for all of them with commas between.
    """
    for kind, form in forms.items():
        compiles(kind, *dialects)(_Writer(form))


class _Writer:
    def __init__(self, form: str) -> None:
        self._form = form

    def __call__(self, element: FunctionElement[Any], compiler: SQLCompiler, **options: Any) -> str:
        # An argument that a form leaves out is not compiled: its parameters would be left over.
        parts = [_Argument(clause, compiler, options) for clause in element.clauses]
        return self._form.format(*parts, every=_Argument(element.clauses, compiler, options))


class _Argument(NamedTuple):
    clause: sa.ClauseElement
    compiler: SQLCompiler
    options: Mapping[str, Any]

    def __format__(self, _: str) -> str:
        return self.compiler.process(self.clause, **self.options)


write_as({Contains: "position({1} IN {0}) > 0", TextBytes: "CAST({0} AS BINARY)"})


def json_rows(rows: sa.ColumnElement[str]) -> sa.TableValuedAlias:
    """The rows of the JSON text `rows` as a table with the columns `name`, `number` and `other`."""
    return JsonRows(rows).table_valued(
        sa.column("name", sa.Text), sa.column("number", sa.BigInteger), sa.column("other", sa.BigInteger)
    )


SHORT_INDEXES = ("mysql", "mariadb")
"""Databases whose indexes take no text of any length, and of a key at most 768 characters."""


def text(length: int) -> sa.types.TypeEngine[str]:
    """A text in the order of its bytes and of any length, as SQLite has it, whatever the server's locale."""
    return sa.String(length).with_variant(sa.VARCHAR(collation="C"), "postgresql")


def bounded_text(length: int, at_least: int = 0) -> sa.types.TypeEngine[str]:
    """The same, of at most `length` characters where the database checks that.

    Of `at_least` where an index takes no more.
    """
    bounded = sa.String(length).with_variant(sa.VARCHAR(length, collation="C"), "postgresql")
    return bounded.with_variant(sa.String(at_least), *SHORT_INDEXES) if at_least else bounded


def indexed_text(at_least: int) -> sa.types.TypeEngine[str]:
    """A text without a limit, but that of an index: there it has `at_least` so many characters."""
    return sa.Text().with_variant(sa.String(at_least), *SHORT_INDEXES)


Row = tuple[object, ...]
WHERE = "where"
"""The condition of a partial index, in its `info`: `postgresql_where` imports that dialect always."""


Changes = tuple[tuple[str, str], ...]
"""Columns, and the expression that each is set to."""


class Upsert(msgspec.Struct, frozen=True):
    """An insert of any number of rows; rows whose key is there are changed where `guard` holds, or stay.

    `key` are the columns of a primary key or unique index; without `changes` all that is there stays. `rare`
    are columns that are NULL in most rows. Expressions and `guard` are SQL that all databases understand,
    over the row that is there, by the table's name, and the new one, as `excluded`. Of the row that is there
    an expression reads its own column alone: some databases change one column after the other. `blob` is the
    column that may be large.
    """

    table: sa.Table
    columns: tuple[str, ...]
    key: tuple[str, ...]
    changes: Changes = ()
    guard: str = ""
    rare: tuple[str, ...] = ()
    blob: str = ""


NEVER = "false"
"""As `GuardedUpsert.adds`: no row is added."""


class GuardedUpsert(msgspec.Struct, frozen=True):
    """Rows that are added, or replace the row of their key where `guard` holds; else they are not written.

    The first of `columns` is the key. `given` are values that come with each row, after its columns, and are
    not stored. `guard` is a condition that all databases understand, over the row that is there, by the
    table's name, and the new one, as `given`. Only rows with `adds`, a condition over the new one, are added.
    `blob` is the column that may be large. `is_new`: most rows are not there yet.
    """

    table: sa.Table
    columns: tuple[str, ...]
    given: tuple[str, ...]
    guard: str
    adds: str = ""
    blob: str = ""
    is_new: bool = False

    @property
    def key(self) -> str:
        """The name of the key."""
        return self.columns[0]


def overwrite(*columns: str) -> Changes:
    """The new row's values replace those of the row that is there."""
    return tuple((name, f'excluded."{name}"') for name in columns)


def replacing(table: sa.Table, but: Sequence[str] = ()) -> Upsert:
    """Rows of all columns of `table`, in their order: they replace what is there, but the columns `but`."""
    key = tuple(column.name for column in table.primary_key)
    columns = tuple(column.name for column in table.c)
    return Upsert(table, columns, key, overwrite(*(name for name in columns if name not in (*key, *but))))
