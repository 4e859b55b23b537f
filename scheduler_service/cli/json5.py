"""Reads JSON5 (https://spec.json5.org) with the place of each value (decision 22)."""

import re
from collections.abc import Iterator
from typing import Any

from client_sdk.models import write_pointer

_BLANK = re.compile(r"(?:[\s\ufeff]|//[^\n\r\u2028\u2029]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]+|(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
)
_NAME = re.compile(r"[^\W\d]\w*|[$_][\w$]*")
_STRING = re.compile(r'"((?:[^"\\\n\r]|\\(?:\r\n|.))*)"|' + r"'((?:[^'\\\n\r]|\\(?:\r\n|.))*)'", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LINE_ENDS = ("\n", "\r", "\r\n", "\u2028", "\u2029")
_QUOTES = ("'", '"')
_WORDS = {"true": True, "false": False, "null": None}
MAX_DEPTH = 200
LONGEST_INTEGER = 400
"""Digits; what has more is read as a float, which is infinite."""


class Json5Error(ValueError):
    """An error, and the character offset at which it is."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


class Json5Reader:
    """Reads one text; `places` then maps the JSON Pointer of each value to its character offset."""

    def __init__(self, text: str) -> None:
        self.places: dict[str, int] = {}
        self._text = text
        self._at = 0

    def read(self) -> Any:
        """The value. Raises Json5Error."""
        value = self._value("", 0)
        self._skip()
        if self._at < len(self._text):
            raise Json5Error("something follows the value", self._at)
        return value

    def _value(self, pointer: str, depth: int) -> Any:
        self._skip()
        if depth > MAX_DEPTH:
            raise Json5Error("it is nested too deeply", self._at)
        self.places[pointer] = self._at
        letter = self._peek()
        if letter == "{":
            return self._object(pointer, depth)
        if letter == "[":
            return self._array(pointer, depth)
        if letter in _QUOTES:
            return self._string()
        return self._scalar()

    def _object(self, pointer: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for start in self._items("}"):
            name = self._string() if self._peek() in _QUOTES else self._name()
            if name in found:
                raise Json5Error(f"the name {name!r} is given twice", start)
            if not self._accept(":"):
                raise Json5Error("':' is expected here", self._at)
            found[name] = self._value(pointer + write_pointer([name]), depth + 1)
        return found

    def _array(self, pointer: str, depth: int) -> list[Any]:
        found: list[Any] = []
        for _ in self._items("]"):
            found.append(self._value(f"{pointer}/{len(found)}", depth + 1))
        return found

    def _items(self, bracket: str) -> Iterator[int]:
        """The offset of each item, which the caller reads, up to the closing bracket."""
        self._at += 1
        while not self._accept(bracket):
            yield self._at
            if not self._accept(",") and self._peek() != bracket:
                raise Json5Error(f"',' or '{bracket}' is expected here", self._at)

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise Json5Error("the string has no end on its line", self._at)
        text, start = match[match.lastindex or 1], self._at + 1
        self._at = match.end()
        return _join_surrogates(_ESCAPE.sub(lambda escape: _unescape(escape, start), text))

    def _scalar(self) -> Any:
        number = _NUMBER.match(self._text, self._at)
        match = number or _NAME.match(self._text, self._at)
        if match is None or (number is None and match.group() not in _WORDS):
            raise Json5Error("a value is expected here", self._at)
        if number is not None and re.match(r"[\w.$]", self._text[match.end() : match.end() + 1]):
            raise Json5Error("this is not a number", self._at)
        self._at = match.end()
        return _WORDS[match.group()] if number is None else _read_number(match.group())

    def _name(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            raise Json5Error("a name is expected here", self._at)
        self._at = match.end()
        return match.group()

    def _accept(self, letter: str) -> bool:
        """Whether `letter` comes next, which is then read."""
        self._skip()
        is_next = self._peek() == letter
        self._at += is_next
        return is_next

    def _skip(self) -> None:
        blank = _BLANK.match(self._text, self._at)
        assert blank is not None
        self._at = blank.end()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]


def _unescape(escape: re.Match[str], start: int) -> str:
    """What an escape in the string that begins at `start` means."""
    code, at = escape[1], start + escape.start()
    if code in ("u", "x"):
        raise Json5Error(f"the escape needs {4 if code == 'u' else 2} hexadecimal digits", at)
    if code in _LINE_ENDS:
        return ""
    if code in "123456789":
        raise Json5Error("the backslash starts no valid escape", at)
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)


def _read_number(text: str) -> int | float:
    plain = text.lstrip("+-")
    is_long = len(plain) >= LONGEST_INTEGER
    if plain[:2] in ("0x", "0X"):
        value: int | float = float("inf") if is_long else int(plain, 16)
    else:
        value = int(plain) if plain.isdigit() and not is_long else float(plain)
    return -value if text.startswith("-") else value


def _join_surrogates(text: str) -> str:
    """Joins two escapes that are the halves of a surrogate pair."""
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
