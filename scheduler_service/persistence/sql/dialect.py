"""What differs between SQL databases."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeVar

import sqlalchemy as sa

from scheduler_service.persistence.sql.expressions import GuardedUpsert, Row, Upsert
from scheduler_service.ports.errors import StoreError

Found = TypeVar("Found")
LONG_ANSWER_SECONDS = 3_600.0
"""What walks over a whole table may take so long before a server says anything."""
Durability = Literal["full", "process"]
Columns = Iterable[sa.ColumnElement[Any]]
Single = Callable[[sa.Connection, type[StoreError]], AbstractContextManager[None]]
"""A transaction of one statement, which is durable as it returns.

Raises the error given where it may be durable, and nobody has said so.
"""


class Run(Protocol):
    """Runs work on a connection, in a transaction of its own or of a group."""

    def __call__(self, work: Callable[[sa.Connection], Found], /) -> Awaitable[Found]:
        """What `work` returns. Raises StoreError."""


class Dialect(Protocol):
    """One database: how it is opened, how transactions begin and end, and how many rows are written."""

    engine: sa.Engine
    # Errors of the driver; those among them that `value_errors` names are the fault of a value.
    errors: tuple[type[Exception], ...]
    value_errors: tuple[type[Exception], ...]
    # The name of the database program, and which of its settings let commits outlive a power loss.
    product: str
    synced_by: str

    @property
    def single(self) -> Single | None:
        """None: a transaction of one statement is as any other."""

    def dispose(self) -> None:
        """Closes the connections that nobody uses."""

    def is_usable(self, connection: sa.Connection) -> bool:
        """Whether a kept connection may be used: its server has neither closed it nor sent anything since."""

    def file_stamp(self) -> object | None:
        """What each commit to the database changes, of whichever process; it is found without a thread.

        To be compared with earlier ones of this object. None: that cannot be told, so the database is asked.
        """

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """A connection on which everything read is of one moment."""

    def begin(self, connection: sa.Connection) -> None:
        """Opens a transaction that writes."""

    def commit(self, connection: sa.Connection) -> None:
        """Makes the transaction durable, if one is open. After an error it may be durable or not."""

    def rollback(self, connection: sa.Connection) -> None:
        """Takes the transaction back, if one is open; raises no error of the driver."""

    def hits_all(self, error: BaseException | None) -> bool:
        """Whether each write of a group would fail by this error as well, as on a full disk.

        False where that is not known: a server may refuse one that is too large.
        """

    def is_collision(self, error: BaseException) -> bool:
        """Whether the database took the transaction back for another one's sake: once more, it may pass."""

    def locked(self, connection: sa.Connection, number: int) -> AbstractContextManager[None]:
        """Within it no other process goes on that takes this lock: tables may be changed, then committed."""

    def take_turns(self, connection: sa.Connection, number: int) -> None:
        """Waits in the open transaction until no other one that writes has taken this number (64 bits)."""

    def waiting_for(self, connection: sa.Connection, seconds: float | None) -> AbstractContextManager[None]:
        """Within it each answer is waited for so long; None: for ever."""

    def claim_alone(self, connection: sa.Connection, number: int) -> bool:
        """Takes this number as long as the connection lasts; False: another connection has it.

        It has it already: nothing changes. A connection whose machine is gone is ended by the server within
        a minute, if it is not used meanwhile.
        """

    def milliseconds(self, connection: sa.Connection) -> int:
        """The wall clock of the database in ms; of a file that of this machine."""

    def syncs(self, connection: sa.Connection) -> bool:
        """Whether what is committed outlives a power loss; in memory nothing is to outlive anything."""

    def is_replica(self, connection: sa.Connection) -> bool:
        """Whether it follows another server, and refuses to be written to."""

    def insert_many(self, connection: sa.Connection, upsert: Upsert, rows: Sequence[Row]) -> int:
        """Writes `rows` in the open transaction through the driver: hot rows do not pass SQLAlchemy.

        Returns how many were inserted or changed a row; the others were there already.
        """

    def write_guarded(
        self, connection: sa.Connection, upsert: GuardedUpsert, rows: Sequence[Row]
    ) -> set[object]:
        """Writes `rows`, each of another key, in the open transaction; the keys of the rows written."""

    def delete_keys(
        self, connection: sa.Connection, table: sa.Table, keys: Sequence[tuple[str, int]]
    ) -> None:
        """Deletes in the open transaction the rows of `table` whose primary keys are among `keys`."""

    def among(self, columns: Columns, keys: Columns) -> sa.ColumnElement[bool]:
        """Whether the `columns` of a row to read, change or delete are those of a row of a table of keys.

        Each key is there once.
        """

    def take(self, connection: sa.Connection, table: sa.Table, window: sa.Select[Any]) -> Sequence[Any]:
        """Deletes the rows whose primary keys `window` selects; what they were when they were deleted."""

    def first_rows(
        self, connection: sa.Connection, selection: sa.Select[Any], order: Sequence[Any], limit: int
    ) -> Sequence[Any]:
        """The first rows of `selection` in the descending order of the columns `order`, at most `limit`.

        An index leads to the first column; of the rows behind the last one none is sorted.
        """

    def fetch(
        self, connection: sa.Connection, query: sa.Select[Any], values: Mapping[str, Any]
    ) -> Sequence[Sequence[Any]]:
        """All rows of `query`; none of their bytes may be NULL."""

    def row_order(self, table: sa.Table) -> tuple[sa.ColumnElement[Any], ...]:
        """The columns in whose order a walk over all rows of `table` reads fastest; unique together."""

    def hold(self, connection: sa.Connection, keys: sa.Select[Any]) -> sa.FromClause:
        """What `keys` (a text and two numbers) selects now, as a table until the next call.

        Its columns are `name`, `number` and `other`.
        """

    def measure(self, connection: sa.Connection, tables: Iterable[sa.Table]) -> int:
        """The bytes that the database uses for `tables`."""

    def used_after(self, connection: sa.Connection, estimate: int) -> int:
        """The bytes in use after a removal: measured where that is cheap, else the `estimate`."""

    def give_back(self, connection: sa.Connection) -> bool:
        """Returns a part of the unused space to the disk; whether there is more. May end the transaction."""

    def explain(self, cause: BaseException) -> str:
        """What does not work, where, and what to check; never a password."""
