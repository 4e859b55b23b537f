"""Where tests may listen, break or kill: the points around each durable write.

`BEGIN` opens a group's transaction, `WRITE` puts its rows, `COMMIT` makes them durable; those who wait are
told afterwards. `FOLD` ends a transaction that only brings turns of the journal into the tables. A tap runs
in the writer's thread. What it raises counts as raised by the database there: before `COMMIT` has ended well
nothing was written, after it nobody knows. `DIVIDE` is each commit of a division of the folder, which runs
before there is a writer.
"""

from enum import StrEnum
from typing import Protocol


class FaultPoint(StrEnum):
    """A place on the way of a group of writes."""

    BEGIN = "state.begin"
    WRITE = "state.write"
    COMMIT = "state.commit"
    FOLD = "state.fold"
    DIVIDE = "state.divide"


class FaultPoints(Protocol):
    """Hears of every point, in order, before and after it."""

    def before(self, point: str) -> None:
        """`point` is about to happen."""

    def after(self, point: str) -> None:
        """`point` has happened."""
