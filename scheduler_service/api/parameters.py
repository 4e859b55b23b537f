"""Query parameters: declared once, read strictly, and described in OpenAPI from the same declaration."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from functools import partial
from typing import Any
from urllib.parse import unquote_to_bytes

from client_sdk.models import write_pointer
from scheduler_service.api.responses import ApiProblem, invalid
from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.moments import EPOCH
from scheduler_service.timing.times import parse_time
from scheduler_service.timing.zones import load_zone

Values = Mapping[str, Any]

LARGEST = 2**53
LONGEST_TEXT = 1_024
LONGEST_WORD = 64
LONGEST_CURSOR = 32_768
MOST_REPEATED = 50
_LOST_PLUS = re.compile(r" (?=[0-9]{2}:[0-9]{2}$)")
_FLAGS = {"1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True)
class Parameter:
    """One parameter: `read` converts its text, and raises ValueError with the remedy as message.

    `longest`: characters that it may have; `most`: how often a repeated one may be given.
    """

    name: str
    read: Callable[[str], object]
    schema: Mapping[str, object]
    description: str
    default: object = None
    required: bool = False
    repeated: bool = False
    example: object = field(default=None, kw_only=True)
    longest: int = field(default=LONGEST_WORD, kw_only=True)
    most: int = field(default=MOST_REPEATED, kw_only=True)


def read_query(raw: bytes, parameters: tuple[Parameter, ...]) -> Values:
    """The values of all `parameters`, defaults filled in. Raises ApiProblem (422) naming the parameter."""
    # Nothing is called for an empty one, as most requests have.
    values = _read_given(map(_decode, filter(None, raw.split(b"&"))), parameters) if raw else {}
    for parameter in parameters:
        if parameter.required and parameter.name not in values:
            raise invalid(f"/{parameter.name}", "required", f"the parameter {parameter.name!r} is required")
        values.setdefault(parameter.name, parameter.default)
    return values


def read_pairs(pairs: Iterable[tuple[str, str]], parameters: tuple[Parameter, ...]) -> Values:
    """The same for names and texts that are decoded, of parameters of which none is required.

    No more are taken than up to the first wrong one.
    """
    return {**read_query(b"", parameters), **_read_given(pairs, parameters)}


def text(
    name: str,
    description: str,
    *,
    required: bool = False,
    example: object = None,
    longest: int = LONGEST_TEXT,
) -> Parameter:
    """A text that is not empty."""
    schema = {"type": "string", "minLength": 1}
    return Parameter(
        name, _read_text, schema, description, required=required, example=example, longest=longest
    )


def texts(
    name: str,
    description: str,
    *,
    required: bool = False,
    example: object = None,
    most: int = MOST_REPEATED,
) -> Parameter:
    """Texts that are not empty: the parameter may be given `most` times; `()` where it is left out."""
    one = text(name, description, required=required, example=example)
    several = {"type": "array", "items": one.schema}
    return replace(one, schema=several, default=(), repeated=True, most=most)


def integer(
    name: str,
    description: str,
    *,
    low: int = 0,
    high: int = LARGEST,
    default: int | None = None,
    required: bool = False,
) -> Parameter:
    """A whole number from `low` to `high`."""
    schema: dict[str, object] = {"type": "integer", "minimum": low, "maximum": high}
    if default is not None:
        schema["default"] = default
    read = partial(read_integer, low=low, high=high)
    return Parameter(name, read, schema, description, default, required)


def number(name: str, description: str, *, high: int) -> Parameter:
    """A number from 0 to `high`."""
    schema = {"type": "number", "minimum": 0, "maximum": high}
    return Parameter(name, partial(_read_number, high=high), schema, description)


def flag(name: str, description: str, *, default: bool | None = None) -> Parameter:
    """0, 1, true or false."""
    schema: dict[str, object] = {"type": "string", "enum": ["0", "1", "true", "false"]}
    if default is not None:
        schema["default"] = "true" if default else "false"
    return Parameter(name, _read_flag, schema, description, default)


def choice(
    name: str, description: str, words: type[StrEnum] | tuple[str, ...], default: str | None = None
) -> Parameter:
    """One of `words`."""
    allowed = tuple(str(word) for word in words)
    schema: dict[str, object] = {"type": "string", "enum": list(allowed)}
    if default is not None:
        schema["default"] = default

    def read(given: str) -> str:
        if given not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return given

    return Parameter(name, read, schema, description, default)


def moment(name: str, description: str) -> Parameter:
    """A moment, RFC 3339 or `2023-10-01 09:00:01` in UTC; its value is in wall ms."""
    schema = {"type": "string", "format": "date-time"}
    return Parameter(name, read_moment, schema, description, example="2026-01-31T09:00:00Z")


def day(name: str, description: str) -> Parameter:
    """A day of the calendar, `2026-01-31`; its value is the number of days since 1970."""
    schema = {"type": "string", "format": "date"}
    return Parameter(name, _read_day, schema, description, example="2026-01-31")


def label() -> Parameter:
    """`label=key:value`, any number of times; all of them must match."""
    return Parameter(
        "label",
        _read_label,
        {"type": "array", "items": {"type": "string", "pattern": "^[^:]+:"}},
        "Only with this label, as `key:value`; given several times, all must fit.",
        (),
        repeated=True,
        example=["team:ops"],
        longest=LONGEST_TEXT,
    )


def paging(default: int = 50) -> tuple[Parameter, Parameter]:
    """`limit` and `cursor` of every list (SPEC section 10)."""
    return (
        integer("limit", "How many at most.", low=1, high=500, default=default),
        text("cursor", "`nextCursor` of the page before.", longest=LONGEST_CURSOR),
    )


def read_integer(given: str, low: int, high: int) -> int:
    """A whole number in its plain spelling. Raises ValueError."""
    if not re.fullmatch(r"-?[0-9]{1,18}", given) or not low <= int(given) <= high:
        raise ValueError(f"must be a whole number from {low} to {high}")
    return int(given)


def read_moment(given: str) -> int:
    """Wall ms. A blank before the offset counts as `+`: form encoding makes it one. Raises ValueError."""
    text = _LOST_PLUS.sub("+", given)
    try:
        return parse_time(text, load_zone("UTC"))
    except ExpressionError as error:
        # The value stands in front of what is said of a parameter.
        own, message = f"{text[:80]!r} ", error.full_message
        said = message.removeprefix(own) if message.startswith(own) else f"is not a moment: {message}"
        raise ValueError(said) from None


def check_length(name: str, given: str, longest: int) -> None:
    """Raises ApiProblem (422) for a parameter or header of more than `longest` characters."""
    if len(given) > longest:
        message = f"{name} has {len(given):,} characters; give at most {longest:,}"
        raise invalid(f"/{name}", "too_long", message)


def check_known(name: str, parameters: tuple[Parameter, ...]) -> None:
    """Raises ApiProblem (422) where none of `parameters` has this name."""
    known = {parameter.name for parameter in parameters}
    if name not in known:
        raise _unknown(name, known)


def _unknown(name: str, known: Collection[str]) -> ApiProblem:
    allowed = ", ".join(sorted(known)) or "none"
    message = f"unknown parameter {name[:80]!r}; known here: {allowed}"
    return invalid(write_pointer([name]), "unknown_parameter", message)


def _read_text(given: str) -> str:
    if not given:
        raise ValueError("must not be empty")
    return given


def _read_number(given: str, high: int) -> float:
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", given) or float(given) > high:
        raise ValueError(f"must be a number from 0 to {high}")
    return float(given)


def _read_day(given: str) -> int:
    found = None
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", given):
        with suppress(ValueError):
            found = (date.fromisoformat(given) - EPOCH.date()).days
    if found is None or found < 0:
        raise ValueError("is not a day since 1970; write it as 2026-01-31")
    return found


def _read_flag(given: str) -> bool:
    value = _FLAGS.get(given.lower())
    if value is None:
        raise ValueError("must be 0, 1, true or false")
    return value


def _read_label(given: str) -> tuple[str, str]:
    key, colon, value = given.partition(":")
    if not key or not colon:
        raise ValueError("must be key:value")
    return key, value


def _decode(part: bytes) -> tuple[str, str]:
    name, _, text = part.replace(b"+", b" ").partition(b"=")
    try:
        return unquote_to_bytes(name).decode(), unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise invalid("", "encoding", "the query is not UTF-8 in percent-encoding; encode it so") from None


def _add(values: dict[str, Any], parameter: Parameter, given: str) -> None:
    pointer = f"/{parameter.name}"
    if parameter.name in values and not parameter.repeated:
        raise invalid(pointer, "repeated", f"the parameter {parameter.name!r} is given twice; give it once")
    check_length(parameter.name, given, parameter.longest)
    if parameter.repeated and len(values.get(parameter.name, ())) >= parameter.most:
        message = (
            f"the parameter {parameter.name!r} is given more than {parameter.most} times; give it less often"
        )
        raise invalid(pointer, "too_many", message)
    if "\x00" in given:
        raise invalid(pointer, "nul", f"{parameter.name} must not contain the character U+0000")
    try:
        value = parameter.read(given)
    except ValueError as error:
        raise invalid(pointer, "invalid", f"{parameter.name} {given[:80]!r} {error}") from None
    if parameter.repeated:
        values[parameter.name] = (*values.get(parameter.name, ()), value)
    else:
        values[parameter.name] = value


def _read_given(pairs: Iterable[tuple[str, str]], parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    known = {parameter.name: parameter for parameter in parameters}
    values: dict[str, Any] = {}
    for name, given in pairs:
        if name not in known:
            raise _unknown(name, known)
        _add(values, known[name], given)
    if "from" in values and "to" in values and values["from"] > values["to"]:
        raise invalid("/from", "range", "from is after to: nothing is between them; exchange the two")
    return values
