"""Query parameters: declared once, read strictly, and described in OpenAPI from the same declaration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

from client_sdk.models import write_pointer
from scheduler_service.api.problems import ApiProblem, invalid

LARGEST = 2**53
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Parameter:
    """One parameter: `read` makes its value of the text and raises ValueError, with the remedy as message."""

    name: str
    read: Callable[[str], object]
    schema: Mapping[str, object]
    description: str
    default: object = None
    required: bool = False
    repeated: bool = False
    example: object = field(default=None, kw_only=True)


def read_query(raw: bytes, parameters: tuple[Parameter, ...]) -> Values:
    """The values of all `parameters`, defaults filled in. Raises ApiProblem (422) naming the parameter."""
    known = {parameter.name: parameter for parameter in parameters}
    values: dict[str, Any] = {}
    for name, text in _split(raw):
        if name not in known:
            raise _unknown(name, known)
        _take(values, known[name], text)
    for parameter in parameters:
        if parameter.required and parameter.name not in values:
            raise invalid(f"/{parameter.name}", "required", f"the parameter {parameter.name!r} is required")
        values.setdefault(parameter.name, parameter.default)
    return values


def _split(raw: bytes) -> list[tuple[str, str]]:
    return [_decode(part) for part in raw.split(b"&") if part] if raw else []


def _decode(part: bytes) -> tuple[str, str]:
    name, _, text = part.replace(b"+", b" ").partition(b"=")
    try:
        return unquote_to_bytes(name).decode(), unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise invalid("", "encoding", "the query is not UTF-8 in percent-encoding; encode it so") from None


def _take(values: dict[str, Any], parameter: Parameter, text: str) -> None:
    pointer = f"/{parameter.name}"
    if parameter.name in values and not parameter.repeated:
        raise invalid(pointer, "repeated", f"the parameter {parameter.name!r} is given twice; give it once")
    if "\x00" in text:
        raise invalid(pointer, "nul", f"{parameter.name} must not contain the character U+0000")
    try:
        value = parameter.read(text)
    except ValueError as error:
        raise invalid(pointer, "invalid", f"{parameter.name} {text[:80]!r} {error}") from None
    if parameter.repeated:
        values[parameter.name] = (*values.get(parameter.name, ()), value)
    else:
        values[parameter.name] = value


def _unknown(name: str, known: Mapping[str, Parameter]) -> ApiProblem:
    allowed = ", ".join(sorted(known)) or "none"
    return invalid(
        write_pointer([name]), "unknown_parameter", f"unknown parameter {name[:80]!r}; known here: {allowed}"
    )
