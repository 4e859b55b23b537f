"""The points around each durable write at which tests observe, fail or kill the process.

`COMMIT` makes a group of writes durable, and its results are reported afterwards; `HISTORY` does so for rows
of the history. `GATHER` is each commit that brings a divided folder together, `REPAIR` each step of a repair:
both run before there is a writer. `CONTEXTS` puts the contexts of a turn into a store of their own, in the
thread of the event loop.
"""

from enum import StrEnum
from typing import Protocol


class FaultPoint(StrEnum):
    """A durable write."""

    COMMIT = "state.commit"
    HISTORY = "history.commit"
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
