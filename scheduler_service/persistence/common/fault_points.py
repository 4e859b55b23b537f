"""The points around each durable write at which tests observe, fail or kill the process.

`BEGIN` opens a group's transaction, `WRITE` writes its rows, `COMMIT` makes them durable; results are
reported afterwards. `GATHER` is each commit that brings a divided folder together, `REPAIR` each step of a
repair: both run before there is a writer.
`CONTEXTS` puts the contexts of a turn into a store of their own, in the thread of the event loop.
"""

from enum import StrEnum
from typing import Protocol


class FaultPoint(StrEnum):
    """A step in writing a group."""

    BEGIN = "state.begin"
    WRITE = "state.write"
    COMMIT = "state.commit"
    GATHER = "state.gather"
    REPAIR = "state.repair"
    CONTEXTS = "contexts.put"


class FaultPoints(Protocol):
    """Is called before and after every point, in order, in the writer's thread.

    What it raises counts as raised by the database there: before `COMMIT` has succeeded nothing was written,
    after it the outcome is unknown.
    """

    def before(self, point: str) -> None:
        """`point` is about to happen."""

    def after(self, point: str) -> None:
        """`point` has happened."""
