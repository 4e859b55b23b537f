"""Which rows of conformance data a test shows: it says so itself, so that a list can be kept complete."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


def shows(*rows: str) -> Callable[[Test], Test]:
    """Marks a test with the ids of the rows that it shows."""

    def mark(test: Test) -> Test:
        test.rows = rows  # type: ignore[attr-defined]
        return test

    return mark


def shown_by(module: ModuleType) -> list[str]:
    """The ids of all rows that the tests of a module show, in order, repeated where two tests show one."""
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    return [row for test in tests for row in getattr(test, "rows", ())]
