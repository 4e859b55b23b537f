"""Finds where JSON values end, without decoding them: only brackets and texts are looked at."""

import json
import re
from array import array
from collections.abc import Iterator
from itertools import accumulate

TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""A JSON string, for patterns."""
BRACKET = re.compile(rb'[^"\[\]{}]*+(?:' + TEXT + rb'[^"\[\]{}]*+)*+[\[\]{}]', re.DOTALL)
"""The next bracket outside of texts, with what stands before it."""
LEAP_LEVELS = 8
_FLAT = rb'[^"\[\]{}]*+(?:' + TEXT + rb'[^"\[\]{}]*+)*+'
_WITHIN = _FLAT
for _ in range(LEAP_LEVELS - 1):
    _WITHIN = _FLAT + rb"(?:[\[{]" + _WITHIN + rb"[\]}]" + _FLAT + rb")*+"
_BALANCED = re.compile(rb"(?:" + _FLAT + rb"[\[{]" + _WITHIN + rb"[\]}])*+", re.DOTALL)
_SCALAR = re.compile(TEXT + rb'|[^",:\[\]{}\s]++', re.DOTALL)
_MARK = re.compile(rb"(" + TEXT + rb")[ \t\r\n]*+(:?)|[\[\]{},]", re.DOTALL)
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_STEPS = bytes(1 if byte in b"[{" else 255 if byte in b"]}" else 0 for byte in range(256))

BRACKETS_ALONE = 67
"""After so many brackets that were looked at one by one, whole windows of the text are."""
LEAPS_TRIED = 8
LEAP_BYTES = 32_768
"""A call looks at so many: they keep the interpreter for 0.2 ms."""
LEAP_BYTES_MIN = 256
"""A shorter leap does not count as one."""
BLANKS_MAX = 16_384
"""A text with more bytes outside of its JSON strings is not looked at any further for its few values."""
BACKSLASHES_MAX = 64
NO_COLONS = -(1 << 40)
"""In place of a number of colons; whatever is added to it, no text has so many."""
WINDOW_BYTES = 256
WINDOW_BYTES_MAX = 8_192
"""A window begins small and doubles while it is of use; the largest keeps the interpreter for 0.2 ms."""


class Leaps:
    """Leaps over brackets of one text that is read bracket by bracket: thousands of bytes in a few calls.

    Where nothing comes of it, it is tried less often; then at places that have nothing to do with each
    other, so that no regular text has its outermost brackets always elsewhere.
    """

    __slots__ = ("_alone", "_text")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._alone = 0

    def further(self, place: int, limit: int, levels: int) -> int:
        """A place up to `limit` that is right behind a bracket: what opens after `place` is closed there.

        Called once after each bracket. `place` itself where there is none near by, what lies between nests
        to `levels` or more, or it is not looked for this time.
        """
        self._alone += 1
        if self._alone >= BRACKETS_ALONE:
            end = _leap_windows(self._text, place, limit, levels)
            self._alone = end % BRACKETS_ALONE
        elif levels > LEAP_LEVELS and (self._alone < LEAPS_TRIED or self._alone % LEAPS_TRIED == 0):
            end = _leap_shallow(self._text, place, limit)
        else:
            return place
        if end - place >= LEAP_BYTES_MIN:
            self._alone = 0
        return end


def skip_blanks(text: bytes, place: int) -> int:
    """The first place from `place` on that is not blank."""
    found = _BLANKS.match(text, place)
    return place if found is None else found.end()


def end_of_value(text: bytes, place: int, limit: int) -> int | None:
    """The place after the value at `place`; None: it does not end before `limit`."""
    if text[place : place + 1] not in (b"[", b"{"):
        found = _SCALAR.match(text, place, limit)
        return None if found is None else found.end()
    depth, match = 0, BRACKET.match
    while True:
        for _ in range(BRACKETS_ALONE):
            if (found := match(text, place, limit)) is None:
                return None
            place = found.end()
            depth += 1 if text[place - 1] in b"[{" else -1
            if not depth:
                return place
        place, depth = _go_through_windows(text, place, limit, depth)
        if not depth:
            return place


def has_few_values(text: bytes, most: int) -> bool:
    """Whether `text`, if it is JSON, has at most `most` values. False where that takes long to see.

    JSON strings are leapt over, which takes a twentieth of the time of a pattern.
    """
    place = outside = values = 0
    while True:
        quote = text.find(b'"', place)
        end = len(text) if quote < 0 else quote
        outside += end - place
        if outside > BLANKS_MAX:
            return False
        values += 1 + sum(text.count(byte, place, end) for byte in (b",", b"[", b"{"))
        if values > most:
            return False
        if quote < 0:
            return True
        if (place := _behind_string(text, quote)) == 0:
            return False


def count_openings(text: bytes, most: int) -> int:
    """How many brackets open in `text`, within JSON strings as well; where there are more, `most`.

    A search that finds little is 20 times as fast as a count.
    """
    found = 0
    for bracket in (b"[", b"{"):
        place = text.find(bracket)
        while place >= 0:
            if (found := found + 1) == most:
                return found
            place = text.find(bracket, place + 1)
    return found


def count_colons(text: bytes) -> int:
    """How many colons `text`, which is JSON, has, those in its strings too; NO_COLONS: one may be escaped.

    What is written anew from its value has as many where no object has a name twice, and fewer where one has.
    """
    return NO_COLONS if b"\\" in text and b"\\u003" in text else text.count(b":")


def find_repeated_name(text: bytes) -> list[str | int] | None:
    """The path to the first member of `text`, some JSON, with the name of one before; None: there is none."""
    places: list[str | int] = []
    names: list[set[str] | None] = []
    for found in _MARK.finditer(text):
        mark = found[0]
        if found[2]:
            places[-1] = name = str(json.loads(found[1]))
            known = names[-1]
            assert known is not None  # a name stands in an object
            if name in known:
                return places
            known.add(name)
        elif mark in b"[{":
            places.append(0)
            names.append(set() if mark == b"{" else None)
        elif mark in b"]}":
            places.pop()
            names.pop()
        elif mark == b"," and names[-1] is None:
            places[-1] = int(places[-1]) + 1
    return None


def items_of(array: bytes) -> Iterator[bytes]:
    """The texts of the items of `array`, which is known to be a JSON array."""
    place = skip_blanks(array, skip_blanks(array, 0) + 1)
    while (end := end_of_value(array, place, len(array))) is not None:
        yield array[place:end]
        place = skip_blanks(array, skip_blanks(array, end) + 1)


def _leap_shallow(text: bytes, place: int, limit: int) -> int:
    """For what nests at most `LEAP_LEVELS` deep."""
    while (found := _BALANCED.match(text, place, min(place + LEAP_BYTES, limit))) and found.end() > place:
        place = found.end()
    return place


def _leap_windows(text: bytes, place: int, limit: int, levels: int) -> int:
    """For brackets without texts, however deep. It looks at twice as many bytes as it leaps over."""
    size = WINDOW_BYTES
    while place < limit:
        depths = _depths(text, place, min(place + size, limit))
        within = depths[: depths.index(-1)] if -1 in depths else depths
        if not within or max(within) >= levels or 0 not in within:
            return place
        end = place + len(within) - within[::-1].index(0)
        closed = max(text.rfind(b"]", place, end), text.rfind(b"}", place, end)) + 1
        if closed - place < size // 2:
            return max(place, closed)
        place, size = closed, min(2 * size, WINDOW_BYTES_MAX)
    return place


def _behind_string(text: bytes, quote: int) -> int:
    """The place behind the JSON string that begins with `quote`; 0: it has none that is found soon."""
    close = quote
    for _ in range(BACKSLASHES_MAX):
        if (close := text.find(b'"', close + 1)) < 0:
            return 0
        start = max(quote, close - BACKSLASHES_MAX)
        backslashes = close - start - len(text[start:close].rstrip(b"\\"))
        if backslashes == BACKSLASHES_MAX:
            return 0
        if backslashes % 2 == 0:
            return close + 1
    return 0


def _go_through_windows(text: bytes, place: int, limit: int, depth: int) -> tuple[int, int]:
    """Where the next JSON text or the limit is, and the depth there; or where the depth is 0."""
    size = WINDOW_BYTES
    while True:
        depths = _depths(text, place, min(place + size, limit))
        if -depth in depths:
            return place + depths.index(-depth) + 1, 0
        if depths:
            place += len(depths)
            depth += depths[-1]
        if len(depths) < size:
            return place, depth
        size = min(2 * size, WINDOW_BYTES_MAX)


def _depths(text: bytes, place: int, end: int) -> list[int]:
    """How many more brackets are open after each byte than before `place`, up to the next JSON text."""
    quote = text.find(b'"', place, end)
    window = text[place : end if quote < 0 else quote]
    return list(accumulate(array("b", window.translate(_STEPS))))
