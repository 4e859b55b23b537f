"""What differs between the databases that can hold the history."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec
import sqlalchemy as sa

from scheduler_service.persistence.history.coalesce import Rows

# A connection of the database's own driver: hot rows do not pass through SQLAlchemy.
Raw = Any
# Where a walk goes on, as the database keeps its order; only who made it reads it.
Mark = Any


class Removed(msgspec.Struct, frozen=True):
    """How much was removed; `entries` are rows of detail that gave way to `max_bytes`."""

    executions: int = 0
    notifications: int = 0
    firings: int = 0
    entries: int = 0

    def plus(self, other: "Removed") -> "Removed":
        """Both together."""
        return Removed(
            self.executions + other.executions,
            self.notifications + other.notifications,
            self.firings + other.firings,
            self.entries + other.entries,
        )


class Trim(msgspec.Struct, frozen=True, kw_only=True):
    """What ended before the moment of its state (None: all that did), but the newest `retain` of each job."""

    retain: int
    before: Mapping[str, int] | None
    tenant: str | None


class Removal(Protocol):
    """What removes history: each step works on many rows at once, in the writer's transaction."""

    def trim(self, trim: Trim, mark: Mark | None, connection: Raw) -> tuple[Removed, Mark | None]:
        """Looks at rows behind `mark` and what belongs to them; where to go on, None: that was all."""

    def find_lives(self, jobs: Mapping[str, int], tenant: str, connection: Raw) -> list[str]:
        """The lives (uids) with executions up to the last `executeNumber` of each job."""

    def count_lives(self, uids: Sequence[str], connection: Raw) -> int:
        """Of how many of these lives there is history."""

    def remove_lives(self, uids: Sequence[str], connection: Raw) -> Removed:
        """Removes a part of what there is of these lives; nothing removed: nothing is left."""

    def remove_firings(self, before: int, connection: Raw) -> int:
        """Removes firings that were recorded before a moment and whose execution is gone, or never was."""

    def drop_detail(self, connection: Raw) -> tuple[int, int]:
        """Removes the oldest detail and marks its executions: how many rows, and bytes, that were."""

    def measure(self, connection: Raw) -> int:
        """The bytes that the history uses."""

    def give_back(self, connection: Raw) -> None:
        """Gives space that nothing uses back to the disk."""


class Dialect(Protocol):
    """One database: how a transaction begins and ends there, and how rows are written and removed."""

    engine: sa.Engine
    removal: Removal
    # Errors of the driver; `faults` among them are the fault of a value, not of the database.
    errors: tuple[type[Exception], ...]
    faults: tuple[type[Exception], ...]

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """A connection on which all that is read is of one moment."""

    def begin(self, connection: sa.Connection) -> Raw:
        """Opens a transaction that writes; the driver's connection."""

    def is_open(self, raw: Raw) -> bool:
        """Whether work has left the transaction open."""

    def commit(self, raw: Raw) -> None:
        """Makes the transaction durable."""

    def rollback(self, connection: sa.Connection, raw: Raw) -> None:
        """Takes the transaction back, wherever it stands; raises nothing of the driver's."""

    def lock(self, connection: sa.Connection) -> None:
        """Of several who would make the tables at once, lets one go on at a time."""

    def insert(self, connection: Raw, rows: Rows) -> None:
        """Writes all `rows` in the transaction that is open."""

    def mark_dropped(self, connection: Raw, dropped: Iterable[tuple[str, int]]) -> None:
        """Marks executions whose detail was given up."""

    def explain(self, cause: BaseException) -> str:
        """What does not work, where, and what to look at; no password."""
