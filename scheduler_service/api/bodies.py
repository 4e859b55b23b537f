"""Reads the body of a request: its size, type, JSON and depth, and the items of a large array undecoded."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from http import HTTPStatus
from typing import TypeVar

import msgspec
from starlette.types import Receive, Scope

from client_sdk.models import ModelError, WireModel, parse_model, write_pointer
from scheduler_service.api.request_room import SMALL_BYTES, WHOLE_MAX
from scheduler_service.api.responses import ApiProblem, invalid, invalid_all, refuse
from scheduler_service.hosts.work_thread import work_by_size
from scheduler_service.language.json_pieces import decode_json
from scheduler_service.language.json_scan import TEXT, end_of_value, find_repeated_name, skip_blanks
from scheduler_service.language.json_values import LARGE_BYTES, has_repeated_names, is_shallow

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
    """The value of `body`, with names that are unique in their object (RFC 8259, section 4).

    Raises ApiProblem: 400 for invalid JSON, 422 for numbers out of range, more than 64 levels, and a name
    that is given twice.
    """
    value = _decode(body)
    if not is_shallow(value, _brackets(body), levels=MAX_DEPTH):
        raise _too_deep()
    if has_repeated_names(body, value):
        refuse_repeated_name(body)
    return value


def refuse_repeated_name(text: bytes, within: str = "") -> None:
    """Raises ApiProblem (422) where an object in `text`, which is JSON, has a name twice."""
    path = find_repeated_name(text)
    if path is not None:
        raise _repeated(within + write_pointer(path[:-1]), str(path[-1]))


def _repeated(place: str, name: str) -> ApiProblem:
    message = f"the name {name[:80]!r} is given twice in {place or 'the body'}; remove one"
    return invalid(place + write_pointer([name]), "repeated", message)


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


NOT_AN_ARRAY = "the body must be an array of definitions; one alone goes to POST /jobs/{jobId}"
_KEY = re.compile(rb"(" + TEXT + rb")[ \t\r\n]*:[ \t\r\n]*", re.DOTALL)


def split_array(body: bytes, *, most: int, longest: int) -> list[bytes]:
    """The texts of the items of `body`. Only brackets and texts are looked at: an item may be invalid JSON.

    Raises ApiProblem: 400 for what is no array with an end, 422 for what is not an array or has more than
    `most` items, 413 for an item of more than `longest` bytes. Reads no further than to the first of these.
    """
    place = skip_blanks(body, 0)
    if body[place : place + 1] != b"[":
        raise invalid("", "type", NOT_AN_ARRAY)
    items, place = _read_items(body, place + 1, most, longest)
    if skip_blanks(body, place) < len(body):
        raise _malformed_at(place)
    return items


class SplitObject(msgspec.Struct, frozen=True):
    """An object without one of its members, an array, which is `body[begin:end]`; `items` None: it is none.

    `rest` is the text of an object with the other members, which may be invalid JSON.
    """

    rest: bytes
    items: list[bytes] | None = None
    begin: int = 0
    end: int = 0


def split_member(body: bytes, name: str, *, most: int, longest: int) -> SplitObject:
    """The object `body` without its member `name`.

    Raises ApiProblem as `split_array`, with pointers below `/NAME`; 422 where a name is given twice, 413
    where the other members have more than `longest` bytes. Reads no further than to the first of these.
    """
    place = skip_blanks(body, 0)
    if body[place : place + 1] != b"{":
        raise _too_large_beside(name, longest) if len(body) > longest else _malformed_at(place)
    members: dict[str, bytes] = {}
    found = SplitObject(b"")
    place = skip_blanks(body, place + 1)
    is_over = body[place : place + 1] == b"}"
    while not is_over:
        key, place = _read_key(body, place, longest)
        if key in members or (key == name and found.items is not None):
            raise _repeated("", key)
        if key == name and body[place : place + 1] == b"[":
            begin = place
            items, place = _within(name, body, place + 1, most, longest)
            found = SplitObject(b"", items, begin, place)
        else:
            end = end_of_value(body, place, min(place + longest + 1, len(body)))
            if end is None:
                raise (
                    _too_large_beside(name, longest) if len(body) - place > longest else _malformed_at(place)
                )
            members[key] = body[place:end]
            place = end
        place, is_over = _go_on(body, place, b"}")
    if skip_blanks(body, place + 1) < len(body):
        raise _malformed_at(place + 1)
    if len(body) - (found.end - found.begin) > longest:
        raise _too_large_beside(name, longest)
    rest = b",".join(b"%s:%s" % (msgspec.json.encode(key), text) for key, text in members.items())
    return SplitObject(b"{%s}" % rest, found.items, found.begin, found.end)


def locate(problem: ApiProblem, index: int, within: str = "") -> ApiProblem:
    """`problem`, found in an item of the array at the pointer `within`, with the item."""
    errors = tuple({**error, "pointer": f"{within}/{index}{error['pointer']}"} for error in problem.errors)
    return ApiProblem(problem.status, f"item {index}: {problem.detail}", errors=errors)


def too_many_items(most: int) -> ApiProblem:
    """A 422: the array is too long."""
    return invalid("", "range", f"more than {most} definitions are too many; send at most {most} at once")


def _read_items(body: bytes, place: int, most: int, longest: int) -> tuple[list[bytes], int]:
    """The items of the array that begins before `place`, and the place behind it."""
    place = skip_blanks(body, place)
    items: list[bytes] = []
    if body[place : place + 1] == b"]":
        return items, place + 1
    while True:
        if len(items) == most:
            raise too_many_items(most)
        end = end_of_value(body, place, min(place + longest + 1, len(body)))
        if end is None or end - place > longest:
            raise _no_end(body, place, len(items), longest)
        items.append(body[place:end])
        place, is_over = _go_on(body, end, b"]")
        if is_over:
            return items, place + 1


def _within(name: str, body: bytes, place: int, most: int, longest: int) -> tuple[list[bytes], int]:
    """As `_read_items`; pointers of its errors begin with the member's name."""
    try:
        return _read_items(body, place, most, longest)
    except ApiProblem as problem:
        errors = tuple({**error, "pointer": f"/{name}{error['pointer']}"} for error in problem.errors)
        raise ApiProblem(problem.status, problem.detail, errors=errors) from None


def _read_key(body: bytes, place: int, longest: int) -> tuple[str, int]:
    """The name of a member, and where its value begins."""
    found = _KEY.match(body, place, min(place + longest + 1, len(body)))
    if found is None:
        raise _malformed_at(place)
    try:
        return msgspec.json.decode(found[1], type=str), found.end()
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _malformed_at(place) from None


def _go_on(body: bytes, place: int, close: bytes) -> tuple[int, bool]:
    """Behind a value: where the next one begins; or that of the bracket `close`, and True."""
    place = skip_blanks(body, place)
    follows = body[place : place + 1]
    if follows == close:
        return place, True
    if follows != b",":
        raise _malformed_at(place)
    return skip_blanks(body, place + 1), False


def _no_end(body: bytes, place: int, index: int, longest: int) -> ApiProblem:
    if len(body) - place <= longest:
        return _malformed_at(place)
    message = f"item {index} is larger than {longest:,} bytes; split it"
    return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"/{index}", "too_large", message)


def _too_large_beside(name: str, longest: int) -> ApiProblem:
    text = f"the body without its {name} is larger than {longest:,} bytes; shorten it"
    return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", "too_large", text)


def _malformed_at(place: int) -> ApiProblem:
    message = f"the body is not valid JSON: at byte {place} it is not well formed"
    return refuse(HTTPStatus.BAD_REQUEST, "", "malformed", message)
