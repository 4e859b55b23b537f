"""Finds where JSON values end, without decoding them: only brackets and texts are looked at."""

import re
from collections.abc import Iterator

TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""A JSON string, for patterns."""
BRACKET = re.compile(rb'[^"\[\]{}]*+(?:' + TEXT + rb'[^"\[\]{}]*+)*+[\[\]{}]', re.DOTALL)
"""The next bracket outside of texts, with what stands before it."""
_SCALAR = re.compile(TEXT + rb'|[^",:\[\]{}\s]++', re.DOTALL)
_BLANKS = re.compile(rb"[ \t\r\n]*+")


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
    while (found := match(text, place, limit)) is not None:
        place = found.end()
        depth += 1 if text[place - 1] in b"[{" else -1
        if not depth:
            return place
    return None


def items_of(array: bytes) -> Iterator[bytes]:
    """The texts of the items of `array`, which is known to be a JSON array."""
    place = skip_blanks(array, skip_blanks(array, 0) + 1)
    while (end := end_of_value(array, place, len(array))) is not None:
        yield array[place:end]
        place = skip_blanks(array, skip_blanks(array, end) + 1)
