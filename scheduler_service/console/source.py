"""Finds the comments, strings, templates and regular expressions of a JavaScript text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from scheduler_service.domain.errors import PunctualError

_TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n]*|/\*.*?\*/)
    | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    | (?P<word>[\w$]+)
    | (?P<mark>\S)
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*")
_TEMPLATE = re.compile(r"(?:\\.|\$(?!\{)|[^`\\$])*(?P<end>`|\$\{)", re.DOTALL)
_NOT_NEWLINE = re.compile(r"[^\n]")
# Behind these words a value begins, so that a slash there begins a regular expression.
_VALUE_WORDS = "await case delete do else in instanceof new of return throw typeof void yield"
_BEFORE_VALUES = frozenset(_VALUE_WORDS.split())
_AFTER_VALUES = frozenset(")]}")


class ConsoleError(PunctualError):
    """The console cannot be served; the message names the remedy."""


class ModuleError(ConsoleError):
    """A module is not of the form that the bundler takes: `FILE:LINE: what, and what to do`."""

    def __init__(self, path: str, line: int, message: str) -> None:
        super().__init__(f"{path}:{line}: {message}")
        self.path = path
        self.line = line
        self.reason = message


class VueMissing(ConsoleError):
    """The package that carries Vue is not installed."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A JavaScript text with masks of the same length and the same lines.

    `code` has blanks for comments, strings, regular expressions and the text of templates; `plain` has blanks
    for comments alone. `comments` are the places of comments.
    """

    path: str
    text: str
    code: str
    plain: str
    comments: tuple[tuple[int, int], ...]

    def line_of(self, position: int) -> int:
        """The line of a position, from 1."""
        return self.text.count("\n", 0, position) + 1

    def refuse(self, position: int, message: str) -> ModuleError:
        """The error at a position."""
        return ModuleError(self.path, self.line_of(position), message)


def read_source(path: str, text: str) -> SourceText:
    """The masks of `text`. Raises ModuleError for a string, comment or template without an end."""
    scan = _SourceScan(path, text)
    scan.run()
    comments = tuple(place for place, is_comment in scan.places if is_comment)
    code = _blank(text, [place for place, _ in scan.places])
    return SourceText(path, text, code, _blank(text, comments), comments)


class _SourceScan:
    """One pass over a text. `places` are what is to be masked, and whether it is a comment."""

    def __init__(self, path: str, text: str) -> None:
        self.places: list[tuple[tuple[int, int], bool]] = []
        self._path = path
        self._text = text
        self._at = 0
        self._braces: list[int] = []
        """For each template in whose `${…}` the scan is: how many braces are open there."""
        self._is_after_value = False

    def run(self) -> None:
        """Fills `places`."""
        while (found := _TOKEN.search(self._text, self._at)) is not None:
            self._at = found.end()
            match found.lastgroup:
                case "comment":
                    self.places.append((found.span(), True))
                case "string":
                    self._mask(found.start())
                case "word":
                    self._is_after_value = found[0] not in _BEFORE_VALUES
                case _:
                    self._take_mark(found[0], found.start())
        if self._braces:
            raise self._unended(len(self._text) - 1, "a template")

    def _take_mark(self, mark: str, start: int) -> None:
        if mark == "`":
            self._take_template(start, start + 1)
        elif mark in "\"'":
            raise self._unended(start, "a string")
        elif mark == "/" and self._text.startswith("/*", start):
            raise self._unended(start, "a comment")
        elif mark == "/" and not self._is_after_value and (found := _REGEX.match(self._text, start)):
            self._at = found.end()
            self._mask(start)
        elif mark == "}" and self._braces and self._braces[-1] == 0:
            self._braces.pop()
            self._take_template(start + 1, start + 1)
        else:
            if self._braces and mark in "{}":
                self._braces[-1] += 1 if mark == "{" else -1
            self._is_after_value = mark in _AFTER_VALUES

    def _take_template(self, start: int, inner: int) -> None:
        """Masks from `start` to the end of the text at `inner`: that of the template, or its next `${`."""
        found = _TEMPLATE.match(self._text, inner)
        if found is None:
            raise self._unended(start, "a template")
        self._at = found.end()
        if found["end"] == "`":
            self._mask(start)
        else:
            self.places.append(((start, self._at - 1), False))
            self._braces.append(0)
            self._is_after_value = False

    def _mask(self, start: int) -> None:
        self.places.append(((start, self._at), False))
        self._is_after_value = True

    def _unended(self, position: int, what: str) -> ModuleError:
        line = self._text.count("\n", 0, position) + 1
        return ModuleError(self._path, line, f"{what} begins here and does not end; end it")


def _blank(text: str, places: Iterable[tuple[int, int]]) -> str:
    parts: list[str] = []
    at = 0
    for start, end in places:
        parts += [text[at:start], _NOT_NEWLINE.sub(" ", text[start:end])]
        at = end
    return "".join([*parts, text[at:]])
