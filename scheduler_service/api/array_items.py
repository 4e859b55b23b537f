"""Finds the items of a large array without decoding it: what is refused costs neither time nor memory."""

import re
from http import HTTPStatus

from scheduler_service.api.responses import ApiProblem, invalid, refuse

NOT_AN_ARRAY = "the body must be an array of definitions; one alone goes to POST /jobs/{jobId}"
_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:' + _TEXT + rb'[^"\[\]{}]*+)*+[\[\]{}]', re.DOTALL)
"""The next bracket outside of texts, with what stands before it."""
_SCALAR = re.compile(_TEXT + rb'|[^",:\[\]{}\s]++', re.DOTALL)
_BLANKS = re.compile(rb"[ \t\r\n]*")


def split_array(body: bytes, *, most: int, longest: int) -> list[bytes]:
    """The texts of the items of `body`. Only brackets and texts are looked at: an item may be invalid JSON.

    Raises ApiProblem: 400 for what is no array with an end, 422 for what is not an array or has more than
    `most` items, 413 for an item of more than `longest` bytes. Reads no further than to the first of these.
    """
    place = _skip(body, 0)
    if body[place : place + 1] != b"[":
        raise invalid("", "type", NOT_AN_ARRAY)
    place = _skip(body, place + 1)
    items: list[bytes] = []
    if body[place : place + 1] == b"]":
        return _ended(body, place, items)
    while True:
        if len(items) == most:
            raise too_many_items(most)
        end = _end_of_item(body, place, min(place + longest + 1, len(body)))
        if end is None or end - place > longest:
            raise _no_end(body, place, len(items), longest)
        items.append(body[place:end])
        place = _skip(body, end)
        follows = body[place : place + 1]
        if follows == b"]":
            return _ended(body, place, items)
        if follows != b",":
            raise _malformed(place)
        place = _skip(body, place + 1)


def locate(problem: ApiProblem, index: int) -> ApiProblem:
    """`problem`, found in an item, with the item."""
    errors = tuple({**error, "pointer": f"/{index}{error['pointer']}"} for error in problem.errors)
    return ApiProblem(problem.status, f"item {index}: {problem.detail}", errors=errors)


def too_many_items(most: int) -> ApiProblem:
    """A 422: the array is too long."""
    return invalid("", "range", f"more than {most} definitions are too many; send at most {most} at once")


def _end_of_item(body: bytes, place: int, limit: int) -> int | None:
    """The place after the item at `place`; None: it does not end before `limit`."""
    if body[place : place + 1] not in (b"[", b"{"):
        found = _SCALAR.match(body, place, limit)
        return None if found is None else found.end()
    depth, match = 0, _BRACKET.match
    while (found := match(body, place, limit)) is not None:
        place = found.end()
        depth += 1 if body[place - 1] in b"[{" else -1
        if not depth:
            return place
    return None


def _skip(body: bytes, place: int) -> int:
    found = _BLANKS.match(body, place)
    return place if found is None else found.end()


def _ended(body: bytes, place: int, items: list[bytes]) -> list[bytes]:
    if _skip(body, place + 1) < len(body):
        raise _malformed(place + 1)
    return items


def _no_end(body: bytes, place: int, index: int, longest: int) -> ApiProblem:
    if len(body) - place <= longest:
        return _malformed(place)
    message = f"item {index} is larger than {longest:,} bytes; split it"
    return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"/{index}", "too_large", message)


def _malformed(place: int) -> ApiProblem:
    message = f"the body is not valid JSON: at byte {place} an item of the array is not well formed"
    return refuse(HTTPStatus.BAD_REQUEST, "", "malformed", message)
