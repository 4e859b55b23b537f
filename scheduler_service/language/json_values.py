"""Reads and writes JSON (RFC 8259): responses, reports and bodies."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

import msgspec

from scheduler_service.language.json_pieces import decode_in_pieces, decode_json
from scheduler_service.language.json_scan import count_colons, count_openings

DEPTH_MAX = 64
"""How deep arrays and objects may nest; a deeper text is not read as JSON (SPEC section 10)."""

LARGE_BYTES = 32_768
"""A JSON text that is longer takes long to read and to render: it is done beside the loop (decision 28)."""

FEW_MEMBERS, MEMBER_LEVELS = 64, 2
"""Containers with no more members are encoded member by member, in so many levels: 4,096 calls at most."""


class NotText:
    """In the place of a response whose bytes are no text, and no JSON."""


NOT_TEXT = NotText()


class NotJson:
    """In the place of a body that is not JSON."""


NO_JSON = NotJson()

NOT_READ = (
    "not_text: the response is no text in the charset that its Content-Type names, UTF-8 where it names "
    "none; let the target name the charset of its text"
)


class Unreadable(Exception):
    """Somebody looks into `NOT_TEXT`, or would write it."""


def _refuse(value: object) -> object:
    raise Unreadable if value is NOT_TEXT else TypeError(f"{type(value).__name__} is no JSON")


_BOM = b"\xef\xbb\xbf"
_INTEGER_DIGITS_MAX = 4_000  # Python refuses to convert longer ones
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=_refuse)


def parse_json(body: bytes) -> object:
    """The value of `body` as JSON (RFC 8259), or its text if it is not JSON. Never raises.

    Integers are exact; a decimal becomes a float, or a Decimal if a float would be infinite, so that it is
    written as it was read. `NaN`, `Infinity` and nesting deeper than `DEPTH_MAX` are not JSON. A byte order
    mark is ignored; bytes of a text that are not UTF-8 are shown as `show_text` does.
    """
    value = parse_response(body)
    return show_text(body) if value is NOT_TEXT else value


def parse_response(body: bytes) -> object:
    """As `parse_json`, but `NOT_TEXT` where the body is neither JSON nor text in UTF-8. Never raises."""
    try:
        value = decode_json(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _parse_slowly(body)
    except RecursionError:
        return _text_in(body)
    if is_shallow(value, count_openings(body, DEPTH_MAX + 1)):
        return value
    return _text_in(body)


def read_json(body: bytes) -> object:
    """The value of `body` as JSON, as `parse_json` has it, or `NO_JSON`. Never raises."""
    value = parse_response(body)
    is_text = type(value) is str and value == body.decode("utf-8-sig")  # in JSON it is in quotes
    return NO_JSON if is_text or value is NOT_TEXT else value


def show_text(body: bytes) -> str:
    """A body for people: bytes that are not UTF-8 as `\\xNN`, so that nothing of it is lost."""
    return body.decode("utf-8-sig", "backslashreplace")


def is_shallow(value: object, brackets: int | None = None, *, levels: int = DEPTH_MAX) -> bool:
    """Whether `value` nests at most `levels` deep; it has up to `brackets` containers, if known."""
    if brackets is not None and brackets <= levels:
        return True
    level = [value]
    for _ in range(levels):
        level = _containers_in(level)
        if not level:
            return True
    return False


def as_text(value: object) -> str:
    """A value as text: a string as it is, any other value as compact JSON (SPEC section 4)."""
    if type(value) is str:
        return value
    return as_json(value).decode()


def as_json(value: object) -> bytes:
    """Compact JSON in UTF-8. A lone surrogate is written as an escape; never `NaN` or `Infinity`.

    Raises Unreadable where `NOT_TEXT` is in it.
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _spell(value).encode()


def as_json_by_member(value: object) -> bytes:
    """The same bytes as `as_json`, of `encode_in_pieces`."""
    return b"".join(encode_in_pieces(value))


def encode_in_pieces(value: object, levels: int = MEMBER_LEVELS) -> Iterator[bytes]:
    """The JSON of a value, member by member: one call for 16 MiB keeps the interpreter to itself for 100 ms.

    A container with many members is one piece: they are small, and one by one they would take longer. A
    container with a single member is no level.
    """
    if not (levels and isinstance(value, list | dict) and 0 < len(value) <= FEW_MEMBERS):
        yield as_json(value)
        return
    below = levels - (len(value) > 1)
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield b"," if place else b"["
            yield from encode_in_pieces(item, below)
        yield b"]"
    else:
        for place, (name, item) in enumerate(value.items()):
            yield (b"," if place else b"{") + as_json(name) + b":"
            yield from encode_in_pieces(item, below)
        yield b"}"


def has_repeated_names(text: bytes, value: object) -> bool:
    """Whether an object in `text`, which is the JSON of `value`, has a name twice; True if in doubt."""
    levels = MEMBER_LEVELS if len(text) > LARGE_BYTES else 0
    return count_colons(text) != sum(piece.count(b":") for piece in encode_in_pieces(value, levels))


def find_control(text: str) -> int | None:
    """The position of the first control character (C0, DEL or C1: Unicode category Cc), or None."""
    found = _CONTROL.search(text)
    return None if found is None else found.start()


def _containers_in(values: list[object]) -> list[object]:
    """The arrays and objects one level below; a plain loop for speed with large responses."""
    below: list[object] = []
    for value in values:
        if type(value) is dict or type(value) is list:
            for child in value.values() if type(value) is dict else value:
                if type(child) is dict or type(child) is list:
                    below.append(child)  # noqa: PERF401  # a comprehension would take half as long again
    return below


def _parse_slowly(body: bytes) -> object:
    """Reads what msgspec refuses and RFC 8259 allows: lone surrogates, huge numbers, a byte order mark."""
    try:
        value = decode_in_pieces(body.removeprefix(_BOM), _read_slowly)
    except (ValueError, RecursionError, InvalidOperation):
        return _text_in(body)
    return value if is_shallow(value) else _text_in(body)


def _text_in(body: bytes) -> object:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return NOT_TEXT


def _read_slowly(text: bytes) -> object:
    return json.loads(
        text.decode(), parse_float=_decimal, parse_int=_integer, parse_constant=_refuse_constant
    )


def _decimal(text: str) -> float | Decimal:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        return Decimal(text)
    return number


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < _INTEGER_DIGITS_MAX else Decimal(text)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _spell(value: object) -> str:
    """JSON piece by piece, since the standard encoder escapes lone surrogates but cannot write a Decimal."""
    match value:
        case str():
            return json.dumps(value)
        case dict():
            return "{" + ",".join(f"{json.dumps(name)}:{_spell(item)}" for name, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(_spell, value)) + "]"
        case _:
            return _ENCODER.encode(value).decode()
