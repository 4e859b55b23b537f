"""The errors of the core: one root, and a leaf per kind of text that can be wrong.

PunctualError
├── ExpressionError      a text that a parser refuses: cron, duration, moment, template, JSONPath
└── DefinitionError      a definition with everything that is wrong in it, each with a JSON Pointer
"""

from collections.abc import Iterable

import msgspec


class Problem(msgspec.Struct, frozen=True, gc=False):
    """One thing that is wrong, or worth a warning: where (`pointer`, RFC 6901), what (`code`), in words."""

    pointer: str
    code: str
    message: str


class PunctualError(Exception):
    """The root of all errors that the product raises on purpose."""


class ExpressionError(PunctualError):
    """A text that cannot be read, or that asks for what cannot be honoured.

    `code` is stable and machine-readable (`invalid`, `never_fires`, …); `column` is the place in the text,
    counted from 0, or None where the whole text is meant; `advice` is what to write instead, or empty.
    """

    def __init__(
        self, message: str, *, code: str = "invalid", column: int | None = None, advice: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.column = column
        self.advice = advice

    @property
    def told(self) -> str:
        """The message with its place in the text, counted from 1 as people do, and the advice."""
        place = "" if self.column is None else f" (column {self.column + 1})"
        return f"{self.message}{place}{'; ' if self.advice else ''}{self.advice}"


class DefinitionError(PunctualError):
    """A definition that is refused; `problems` holds all that is wrong with it, never empty."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{problem.pointer}: {problem.message}" for problem in self.problems))
