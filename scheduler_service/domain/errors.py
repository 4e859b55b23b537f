"""The errors of the core: one root, and a leaf per kind of text that can be wrong.

PunctualError
├── ExpressionError      a text that a parser refuses: cron, duration, moment, template, JSONPath
└── DefinitionError      a definition with all its problems, each with a JSON Pointer
"""

from collections.abc import Iterable

import msgspec


class Problem(msgspec.Struct, frozen=True, gc=False):
    """An error or a warning: where (`pointer`, RFC 6901), what (`code`), and a message for people."""

    pointer: str
    code: str
    message: str


class PunctualError(Exception):
    """The root of all errors that the product raises."""


class ExpressionError(PunctualError):
    """A text that cannot be read, or that asks for something impossible.

    `code` is stable and machine-readable (`invalid`, `never_fires`, …); `column` is the place in the text,
    counted from 0, or None for the whole text; `advice` is what to write instead, or empty.
    """

    def __init__(
        self, message: str, *, code: str = "invalid", column: int | None = None, advice: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.column = column
        self.advice = advice

    def as_problem(self, pointer: str) -> Problem:
        """The error as a problem at `pointer`."""
        return Problem(pointer, self.code, self.full_message)

    @property
    def full_message(self) -> str:
        """The message with its column, counted from 1, and the advice."""
        place = "" if self.column is None else f" (column {self.column + 1})"
        return f"{self.message}{place}{'; ' if self.advice else ''}{self.advice}"


class DefinitionError(PunctualError):
    """A definition that is refused; `problems` has each of its problems once, at least one."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("; ".join(f"{problem.pointer}: {problem.message}" for problem in self.problems))
