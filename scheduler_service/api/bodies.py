"""Reads the body of a request and checks its size, type, JSON and depth."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from http import HTTPStatus
from typing import TypeVar

import msgspec
from starlette.types import Receive, Scope

from client_sdk.models import ModelError, WireModel, parse_model
from scheduler_service.api.array_items import NOT_AN_ARRAY, locate, split_array, too_many_items
from scheduler_service.api.request_room import SMALL_BYTES, WHOLE_MAX
from scheduler_service.api.responses import ApiProblem, invalid, invalid_all, refuse
from scheduler_service.hosts.large_work import work_by_size
from scheduler_service.language.json_pieces import decode_json
from scheduler_service.language.values import LARGE_BYTES, is_shallow

MAX_DEPTH = 64
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
COMMAS_DECODED = 50_000
_QUALITY = re.compile(r"0(?:\.\d{0,3})?|1(?:\.0{0,3})?")
MakeRoom = Callable[[int], Awaitable[None]]
Model = TypeVar("Model", bound=WireModel)


class ClientGone(Exception):
    """The caller closed the connection before its request was complete: no answer can be sent."""


async def read_body(scope: Scope, receive: Receive, limit: int, make_room: MakeRoom) -> bytes:
    """The raw body, at most `limit` bytes. Raises ApiProblem (400, 413, 415, 503) and ClientGone.

    `make_room` is awaited with its size before it is read; without a length it counts as the largest one.
    """
    coding = header(scope, b"content-encoding")
    if coding is not None and coding.strip().lower() not in ("", "identity"):
        message = f"a body in the coding {coding[:40]!r} is not read; send it without Content-Encoding"
        raise refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "/Content-Encoding", "coding", message)
    announced = header(scope, b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    if announced is not None and announced.isdigit():
        await make_room(int(announced))
        body = await _collect(receive, limit)
    else:
        body = await _collect(receive, limit, make_room)
    if body and not _is_json(only_header(scope, b"content-type")):
        message = "a body must be JSON; send it with 'Content-Type: application/json'"
        raise refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "/Content-Type", "media_type", message)
    return body


def read_json(body: bytes) -> object:
    """The value of `body`. Where a name is given twice, the last one counts (RFC 8259, section 4).

    Raises ApiProblem: 400 for invalid JSON, 422 for numbers out of range and more than 64 levels.
    """
    value = _decode(body)
    if not is_shallow(value, _brackets(body), levels=MAX_DEPTH):
        raise _too_deep()
    return value


async def read_json_by_size(body: bytes) -> object:
    """As `read_json`; a large body is read beside the loop."""
    return await work_by_size(len(body), lambda: read_json(body))


async def check_object(body: bytes) -> None:
    """Checks that `body` is a JSON object, a large one beside the loop. Raises ApiProblem (400, 422)."""
    await work_by_size(len(body), lambda: _check_object(body))


def read_items(body: bytes, *, most: int, longest: int) -> list[bytes]:
    """The texts of an array's items; whether each is valid JSON is not checked.

    Raises ApiProblem: 400 for invalid JSON, 422 for what is not an array or has more than `most` items, 413
    for an item of more than `longest` bytes.
    """
    if body.count(b",", 0, longest) > COMMAS_DECODED or len(body) > longest:
        return split_array(body, most=most, longest=longest)
    try:
        items = [bytes(item) for item in _ITEMS.decode(body)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        read_json(body)
        raise invalid("", "type", NOT_AN_ARRAY) from None
    if len(items) > most:
        raise too_many_items(most)
    return items


def read_each(
    body: bytes, items: Iterable[bytes], *, within: str = "", levels: int = MAX_DEPTH - 1
) -> Iterator[object]:
    """The values of the `items` that `read_items` found in `body`, one at a time to save memory.

    The array is at the pointer `within`; its items may have `levels`.

    Raises ApiProblem at the first item that makes `read_json` refuse `body`.
    """
    for index, item in enumerate(items):
        try:
            value = _decode(item)
            if not is_shallow(value, _brackets(item), levels=levels):
                raise _too_deep()
        except ApiProblem as problem:
            if len(body) <= WHOLE_MAX:
                read_json(body)  # raises with the place in `body`, or for an earlier error
            raise locate(problem, index, within) from None
        yield value


def read_model(model: type[Model], value: object) -> Model:
    """`value`, decoded JSON, as `model`. Raises ApiProblem (422) with all that is wrong."""
    try:
        return parse_model(model, value, is_json=True)
    except ModelError as error:
        raise invalid_all(error.problems) from None


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of this lower-case name, or None."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None


def only_header(scope: Scope, name: bytes) -> str | None:
    """As `header`, for one that has a single value (RFC 9110, section 5.3).

    Raises ApiProblem (400) where others follow: of two programs on the way each may read another one.
    """
    found = {value for key, value in scope["headers"] if key == name}
    if len(found) > 1:
        title = str(name.title(), "latin-1")
        message = f"{title} is given with {len(found)} values; send it once"
        raise refuse(HTTPStatus.BAD_REQUEST, f"/{title}", "repeated", message)
    return str(found.pop(), "latin-1") if found else None


def read_preferences(value: str | None) -> dict[str, float]:
    """What a header like `Accept` names, in lower case, with its quality (RFC 9110, section 12.4.2).

    Never raises: a quality that is not understood is 0.
    """
    found: dict[str, float] = {}
    for item in (value or "").split(","):
        name, *parameters = (part.strip().lower() for part in item.split(";"))
        pairs = (part.partition("=") for part in parameters)
        given = [_quality(quality.strip()) for key, _, quality in pairs if key.strip() == "q"]
        found[name] = max(found.get(name, 0.0), given[0] if given else 1.0)
    return found


def _quality(given: str) -> float:
    return float(given) if _QUALITY.fullmatch(given) else 0.0


async def _collect(receive: Receive, limit: int, make_room: MakeRoom | None = None) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        if make_room is not None and size > SMALL_BYTES:
            await make_room(limit)
            make_room = None
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _is_json(content_type: str | None) -> bool:
    return content_type is not None and content_type.partition(";")[0].strip().lower() == "application/json"


def _decode(body: bytes) -> object:
    if not body:
        raise _malformed("the body is empty; send a JSON value")
    try:
        value: object = decode_json(body)
    except msgspec.ValidationError:
        raise invalid("", "range", "a number is too large for any use here; send a smaller one") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _malformed(_explain(body, str(error))) from None
    except RecursionError:
        raise _too_deep() from None
    return value


def _check_object(body: bytes) -> None:
    if not isinstance(read_json(body), dict):
        raise invalid("", "type", "the body must be a JSON object")


def _brackets(text: bytes) -> int:
    """A text of so many opening brackets is nested at most as deep."""
    return text.count(b"[") + text.count(b"{")


def _explain(body: bytes, said: str) -> str:
    """What is wrong with a refused body, as text for people, with its place; in short for a large one."""
    if len(body) > LARGE_BYTES:
        return said
    try:
        json.loads(body.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 from byte {error.start} on"
    except json.JSONDecodeError as error:
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError) as error:
        return str(error) if isinstance(error, ValueError) else said
    return r"an escape like \ud800 is half of a surrogate pair; send whole characters"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _malformed(reason: str) -> ApiProblem:
    return refuse(HTTPStatus.BAD_REQUEST, "", "malformed", f"the body is not valid JSON: {reason}")


def _too_large(limit: int) -> ApiProblem:
    message = f"the body is larger than {limit:,} bytes; split it"
    return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", "too_large", message)


def _too_deep() -> ApiProblem:
    return invalid("", "too_deep", f"the body is nested deeper than {MAX_DEPTH} levels; flatten it")
