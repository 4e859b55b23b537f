"""Finds where JSON values end, without decoding them: only brackets and texts are looked at."""

import re
from array import array
from collections.abc import Iterator
from itertools import accumulate

TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""A JSON string, for patterns."""
BRACKET = re.compile(rb'[^"\[\]{}]*+(?:' + TEXT + rb'[^"\[\]{}]*+)*+[\[\]{}]', re.DOTALL)
"""The next bracket outside of texts, with what stands before it."""
_SCALAR = re.compile(TEXT + rb'|[^",:\[\]{}\s]++', re.DOTALL)
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_STEPS = bytes(1 if byte in b"[{" else 255 if byte in b"]}" else 0 for byte in range(256))

BRACKETS_ALONE = 67
"""After so many brackets that were looked at one by one, whole windows of the text are. A prime, so that no
regular text has its outermost brackets always elsewhere."""
WINDOW_BYTES = 256
WINDOW_BYTES_MAX = 8_192
"""A window begins small and doubles while it is of use; the largest keeps the interpreter for 0.2 ms."""


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


def leap(text: bytes, place: int, limit: int, levels: int) -> int:
    """A place up to `limit` that is right behind a bracket: what opens after `place` is closed there.

    `place` itself where there is none near by, or what lies between nests to `levels` or more. Looks at
    thousands of bytes in a few calls, and at most at about twice as many as it leaps over.
    """
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


def items_of(array: bytes) -> Iterator[bytes]:
    """The texts of the items of `array`, which is known to be a JSON array."""
    place = skip_blanks(array, skip_blanks(array, 0) + 1)
    while (end := end_of_value(array, place, len(array))) is not None:
        yield array[place:end]
        place = skip_blanks(array, skip_blanks(array, end) + 1)


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
