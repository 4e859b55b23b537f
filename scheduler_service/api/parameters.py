"""The kinds of query parameters, and those that several routes share."""

import re
from collections.abc import Callable
from enum import StrEnum

from scheduler_service.api.queries import LARGEST, Parameter
from scheduler_service.domain.errors import ExpressionError
from scheduler_service.timing.times import parse_time
from scheduler_service.timing.zones import load_zone

_LOST_PLUS = re.compile(r" (?=[0-9]{2}:[0-9]{2}$)")
_TRUE, _FALSE = frozenset({"1", "true"}), frozenset({"0", "false"})


def text(name: str, description: str, *, required: bool = False, example: object = None) -> Parameter:
    """Any text but the empty one."""
    return Parameter(
        name, _read_text, {"type": "string", "minLength": 1}, description, required=required, example=example
    )


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
    return Parameter(
        name, lambda given: read_integer(given, low, high), schema, description, default, required
    )


def number(name: str, description: str, *, high: int) -> Parameter:
    """A number from 0 to `high`."""
    schema = {"type": "number", "minimum": 0, "maximum": high}
    return Parameter(name, lambda given: _read_number(given, high), schema, description)


def flag(name: str, description: str, *, default: bool | None = None) -> Parameter:
    """0, 1, true or false."""
    schema: dict[str, object] = {"type": "string", "enum": ["0", "1", "true", "false"]}
    return Parameter(name, _read_flag, schema, description, default)


def choice(
    name: str, description: str, words: type[StrEnum] | tuple[str, ...], default: str | None = None
) -> Parameter:
    """One of `words`."""
    allowed = tuple(str(word) for word in words)
    schema: dict[str, object] = {"type": "string", "enum": list(allowed)}
    if default is not None:
        schema["default"] = default
    return Parameter(name, _choose(allowed), schema, description, default)


def moment(name: str, description: str) -> Parameter:
    """A moment, RFC 3339 or `2023-10-01 09:00:01` in UTC; its value is in wall ms."""
    schema = {"type": "string", "format": "date-time"}
    return Parameter(name, read_moment, schema, description, example="2026-01-31T09:00:00Z")


def label() -> Parameter:
    """`label=key:value`, any number of times: all of them must fit."""
    return Parameter(
        "label",
        _read_label,
        {"type": "array", "items": {"type": "string", "pattern": "^[^:]+:"}},
        "Only with this label, as `key:value`; given several times, all must fit.",
        (),
        repeated=True,
        example=["team:ops"],
    )


def paging() -> tuple[Parameter, Parameter]:
    """`limit` and `cursor` of every list (SPEC section 10)."""
    return (
        integer("limit", "How many at most.", low=1, high=500, default=50),
        text("cursor", "`nextCursor` of the page before."),
    )


def read_integer(given: str, low: int, high: int) -> int:
    """A whole number in its plain spelling. Raises ValueError."""
    if not re.fullmatch(r"-?[0-9]{1,18}", given) or not low <= int(given) <= high:
        raise ValueError(f"must be a whole number from {low} to {high}")
    return int(given)


def read_moment(given: str) -> int:
    """Wall ms; a `+` of the offset that the query's encoding made a blank is one again. Raises ValueError."""
    try:
        return parse_time(_LOST_PLUS.sub("+", given), load_zone("UTC"))
    except ExpressionError as error:
        raise ValueError(f"is no moment: {error.message}") from None


def _read_text(given: str) -> str:
    if not given:
        raise ValueError("must not be empty")
    return given


def _read_number(given: str, high: int) -> float:
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", given) or float(given) > high:
        raise ValueError(f"must be a number from 0 to {high}")
    return float(given)


def _read_flag(given: str) -> bool:
    if given.lower() in _TRUE:
        return True
    if given.lower() in _FALSE:
        return False
    raise ValueError("must be 0, 1, true or false")


def _choose(allowed: tuple[str, ...]) -> Callable[[str], object]:
    def read(given: str) -> str:
        if given not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return given

    return read


def _read_label(given: str) -> tuple[str, str]:
    key, colon, value = given.partition(":")
    if not key or not colon:
        raise ValueError("must be key:value")
    return key, value
