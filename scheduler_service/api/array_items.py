"""Finds the items of a large array without decoding it: what is refused costs neither time nor memory."""

import re
from http import HTTPStatus

import msgspec

from scheduler_service.api.responses import ApiProblem, invalid, refuse
from scheduler_service.language.json_scan import TEXT, end_of_value, skip_blanks

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
        raise _malformed(place)
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
    """The object `body` without its member `name`; of members with one name the last one counts.

    Raises ApiProblem as `split_array`, with pointers below `/NAME`; 413 where the other members have more
    than `longest` bytes. Reads no further than to the first of these.
    """
    place = skip_blanks(body, 0)
    if body[place : place + 1] != b"{":
        raise _too_large_beside(name, longest) if len(body) > longest else _malformed(place)
    members: dict[str, bytes] = {}
    found = SplitObject(b"")
    place = skip_blanks(body, place + 1)
    is_over = body[place : place + 1] == b"}"
    while not is_over:
        key, place = _read_key(body, place, longest)
        if key == name and body[place : place + 1] == b"[":
            members.pop(key, None)
            begin = place
            items, place = _within(name, body, place + 1, most, longest)
            found = SplitObject(b"", items, begin, place)
        else:
            end = end_of_value(body, place, min(place + longest + 1, len(body)))
            if end is None:
                raise _too_large_beside(name, longest) if len(body) - place > longest else _malformed(place)
            members[key] = body[place:end]
            found = SplitObject(b"") if key == name else found
            place = end
        place, is_over = _go_on(body, place, b"}")
    if skip_blanks(body, place + 1) < len(body):
        raise _malformed(place + 1)
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
        raise _malformed(place)
    try:
        return msgspec.json.decode(found[1], type=str), found.end()
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _malformed(place) from None


def _go_on(body: bytes, place: int, close: bytes) -> tuple[int, bool]:
    """Behind a value: where the next one begins; or that of the bracket `close`, and True."""
    place = skip_blanks(body, place)
    follows = body[place : place + 1]
    if follows == close:
        return place, True
    if follows != b",":
        raise _malformed(place)
    return skip_blanks(body, place + 1), False


def _no_end(body: bytes, place: int, index: int, longest: int) -> ApiProblem:
    if len(body) - place <= longest:
        return _malformed(place)
    message = f"item {index} is larger than {longest:,} bytes; split it"
    return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"/{index}", "too_large", message)


def _too_large_beside(name: str, longest: int) -> ApiProblem:
    text = f"the body without its {name} is larger than {longest:,} bytes; shorten it"
    return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", "too_large", text)


def _malformed(place: int) -> ApiProblem:
    message = f"the body is not valid JSON: at byte {place} it is not well formed"
    return refuse(HTTPStatus.BAD_REQUEST, "", "malformed", message)
