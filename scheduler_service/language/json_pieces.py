"""Decodes JSON in short steps: one call into C keeps the interpreter from all other threads of the process.

A text of up to `PIECE_BYTES`, or of few values, is decoded at once. Any other is cut at commas that stand
directly in one of its arrays or objects: what is between two of them, put into brackets of its own, is JSON
exactly where the whole is, so that the decoder checks every byte. What is cut out of the middle, as it is
large itself, is `null` for that check.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from scheduler_service.language.json_scan import BRACKET, TEXT, Leaps, has_few_values, skip_blanks

PIECE_BYTES = 32_768
"""A call decodes at most about twice as much, as an item may begin before the end of a piece. It keeps the
interpreter for up to 0.5 ms, of which the loop has to wait out one for each thing that it does meanwhile."""
LEVELS_MAX = 1_000
"""A text that nests deeper is refused, as Python's own decoder does."""
FEW_BYTES = 2_048
FEW_VALUES = 400
"""So many numbers take the decoder 4 ms at the most. A text of `FEW_BYTES` has no more."""
WHOLE_BYTES = 1_048_576
"""JSON strings of so many bytes in all take the decoder 0.3 ms, and up to 1.6 ms where all are escapes."""

_MEMBER = rb'[^",\[\]{}]*+(?:' + TEXT + rb'[^",\[\]{}]*+)*+,'
_ONE = re.compile(_MEMBER, re.DOTALL)
_SEVERAL = re.compile(rb"(?:" + _MEMBER + rb")*+", re.DOTALL)
_PLACE = re.compile(r"\(byte (\d+)\)")
_KINDS = bytes(48 if 48 <= byte < 58 else 101 if byte in b"eE" else 32 for byte in range(256))
_PLAIN = msgspec.json.Decoder().decode

Decode = Callable[[bytes], Any]


def decode_json(text: bytes) -> Any:
    """The value of `text`. Raises as `msgspec.json.decode`."""
    if len(text) <= FEW_BYTES or (len(text) <= WHOLE_BYTES and has_few_values(text, FEW_VALUES)):
        return _PLAIN(text)
    return decode_in_pieces(text, _decode_piece)


def decode_in_pieces(text: bytes, decode: Decode, *, most: int = PIECE_BYTES) -> Any:
    """The value of `text`, of which `decode` gets pieces of up to `most` bytes and one more item.

    Raises what `decode` raises, msgspec.DecodeError where `text` is not JSON, RecursionError.
    """
    if len(text) <= most or text[(begin := skip_blanks(text, 0)) : begin + 1] not in (b"[", b"{"):
        return decode(text)
    return _Pieces(text, decode, most).read()


def _read_float(text: str) -> float:
    """As the decoder does, which takes 10 µs for some numbers of 5 bytes, as 1e300."""
    number = float(text)
    if number - number != 0:
        raise ValueError("Number out of range")
    return number


_WITH_EXPONENTS = msgspec.json.Decoder(float_hook=_read_float).decode


def _decode_piece(text: bytes) -> Any:
    return _WITH_EXPONENTS(text) if b"0e" in text.translate(_KINDS) else _PLAIN(text)


class _Container:
    """An array or object that is not closed yet. What precedes `begin` is in `value`; None: nothing is yet.

    `behind` is the place behind the last bracket before it. `must_go_on`: there was a comma before `begin`.
    """

    __slots__ = ("begin", "behind", "must_go_on", "start", "value")

    def __init__(self, start: int, behind: int) -> None:
        self.start = start
        self.begin = start + 1
        self.behind = behind
        self.value: Any = None
        self.must_go_on = False


class _Pieces:
    """The reading of one text, from bracket to bracket."""

    def __init__(self, text: bytes, decode: Decode, most: int) -> None:
        self._text = text
        self._decode = decode
        self._most = most

    def read(self) -> Any:
        text, most, find = self._text, self._most, BRACKET.match
        place, inner = 0, None
        outer: list[_Container] = []
        leaps = Leaps(text)
        while (found := find(text, place)) is not None:
            at = found.end() - 1
            if inner is not None and at - inner.begin > most:
                self._cut(inner, place, at)
            if text[at] in b"[{":
                if inner is not None:
                    outer.append(inner)
                if len(outer) >= LEVELS_MAX:
                    raise RecursionError("the text is nested too deep")
                inner, place = _Container(at, place), at + 1
            else:
                assert inner is not None  # the text begins with a bracket that opens
                place = at + 1
                closed, inner = inner, outer.pop() if outer else None
                if inner is None:
                    return self._end(closed, at)
                if closed.value is not None or at - closed.start > most:
                    place = self._attach(inner, closed, at)
            place = leaps.further(place, inner.begin + most, LEVELS_MAX - len(outer))
        raise msgspec.DecodeError("Input data was truncated")

    def _end(self, whole: _Container, at: int) -> Any:
        value = self._close(whole, at)
        if skip_blanks(self._text, at + 1) < len(self._text):
            raise _malformed(at + 1)
        return value

    def _cut(self, container: _Container, place: int, at: int) -> None:
        """Takes pieces off `container`, which has neither text beyond `at` nor brackets after `place`."""
        while at - container.begin > self._most:
            end = min(at, max(place, container.begin + self._most))
            several = _SEVERAL.match(self._text, place, end)
            found = several if several and several.end() > place else _ONE.match(self._text, place, at)
            if found is None:
                return
            place = found.end()
            self._take(container, place - 1)

    def _take(self, container: _Container, end: int) -> None:
        """Decodes what precedes `end`, at least one member."""
        found = self._decode_within(container, self._text[container.begin : end])
        if not found:
            raise _malformed(end)
        if container.value is None:
            container.value = found
        elif isinstance(found, list):
            container.value += found
        else:
            container.value.update(found)
        container.begin = end + 1
        container.must_go_on = True

    def _close(self, container: _Container, at: int) -> Any:
        """The value of a container that ends at `at`."""
        text = self._text
        if container.value is None:
            return self._decode_part(text[container.start : at + 1], container.start)
        if text[at] != text[container.start] + 2:  # in ASCII, between brackets of a pair is one character
            raise _malformed(at)
        if container.must_go_on:
            self._take(container, at)
        return container.value

    def _attach(self, container: _Container, large: _Container, at: int) -> int:
        """Puts `large`, which ends at `at`, into `container`; the place where reading goes on."""
        value, text = self._close(large, at), self._text
        before = max(container.begin, large.behind)
        several = _SEVERAL.match(text, before, large.start)
        if several is not None and several.end() > before:
            self._take(container, several.end() - 1)
        found = self._decode_within(container, text[container.begin : large.start] + b"null")
        if isinstance(found, list):
            container.value = container.value or []
            container.value.append(value)
        else:
            container.value = container.value or {}
            container.value[next(iter(found))] = value
        place = skip_blanks(text, at + 1)
        container.must_go_on = text[place : place + 1] == b","
        if not container.must_go_on and text[place : place + 1] not in (b"]", b"}"):
            raise _malformed(place)
        container.begin = place + container.must_go_on
        return container.begin

    def _decode_within(self, container: _Container, members: bytes) -> Any:
        form = b"[%b]" if self._text[container.start] in b"[" else b"{%b}"
        return self._decode_part(form % members, container.begin - 1)

    def _decode_part(self, part: bytes, begin: int) -> Any:
        """The value of `part`, which begins at `begin`: an error says its place in the whole text."""
        try:
            return self._decode(part)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError as error:
            said = _PLACE.sub(lambda found: f"(byte {begin + int(found[1])})", str(error))
            raise msgspec.DecodeError(said) from None


def _malformed(place: int) -> msgspec.DecodeError:
    return msgspec.DecodeError(f"JSON is malformed: invalid character (byte {place})")
