"""Declared timers on their way in: each is checked as a job is, its problems below `/timers/INDEX`."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus

import msgspec

from client_sdk.models import Problem
from scheduler_service.api.bodies import read_json
from scheduler_service.api.definitions import check_posted, put_in
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.problems import ApiProblem, Flaw, invalid, invalid_all, refuse
from scheduler_service.api.request import ApiRequest
from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.errors import RefusedTarget, TransportError

MOST = 1_000


class _Posted(msgspec.Struct):
    timers: msgspec.Raw = msgspec.Raw(b"null")


_BODY = msgspec.json.Decoder(_Posted)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


async def read_declaration(call: ApiRequest) -> tuple[bytes, dict[str, object]]:
    """The body, an object with `timers`: the array may be as large as one, all else as an object.

    Raises ApiProblem (400, 413, 415, 422).
    """
    parts = call.parts
    raw = await call.body(parts.array_bytes) or b"{}"
    if len(raw) > parts.body_bytes and len(raw) - _weigh_timers(raw) > parts.body_bytes:
        text = f"the body without its timers is larger than {parts.body_bytes:,} bytes; shorten it"
        raise refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", "too_large", text)
    value = read_json(raw)
    if not isinstance(value, dict):
        raise invalid("", "type", "the body must be a JSON object")
    return raw, value


def read_timers(raw: bytes) -> bytes | None:
    """The text of `timers` in the JSON object `raw`, as it was posted; None where it says nothing of them."""
    timers = bytes(_BODY.decode(raw).timers)
    return None if timers == b"null" else timers


def check_timers(
    parts: ApiDependencies, text: bytes, values: Sequence[object], service: str
) -> tuple[bytes, tuple[Flaw, ...]]:
    """`text`, the JSON of `values`, as it is kept, and what is worth saying about it.

    Where a definition does not say who made it, the service did. Raises ApiProblem (422) with all that is
    wrong with all of them.
    """
    if len(values) > MOST:
        raise invalid("/timers", "range", f"{len(values)} timers are too many; declare at most {MOST}")
    kept: list[bytes] = []
    warnings: list[Flaw] = []
    errors: list[Flaw] = []
    seen: set[str] = set()
    for index, (value, item) in enumerate(zip(values, _ITEMS.decode(text), strict=True)):
        try:
            posted = check_posted(parts, _sign(bytes(item), value, service), None)
        except ApiProblem as problem:
            errors.extend(_below(index, (Problem(**error) for error in problem.errors)))
            continue
        if posted.job_id in seen:
            told = f"jobId {posted.job_id!r} is declared twice; a job is declared once"
            errors.append(Problem(f"/timers/{index}/jobId", "duplicate", told))
        seen.add(posted.job_id)
        kept.append(posted.definition.text)
        warnings.extend(_below(index, posted.warnings))
    if errors:
        raise invalid_all(errors)
    return b"[" + b",".join(kept) + b"]", tuple(warnings)


def _weigh_timers(raw: bytes) -> int:
    """The bytes of `timers` in `raw`, which may be anything."""
    try:
        return len(_BODY.decode(raw).timers)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0


async def check_address(parts: ApiDependencies, address: str | None) -> str:
    """A base `http(s)://host[:port][/path]` without its last slash; none is empty. Raises ApiProblem.

    Without a key nobody vouches for who registers: the address is judged as a job's own target is
    (SPEC section 9).
    """
    if address is None:
        return ""
    try:
        read_url(address)
        if "?" in address or "#" in address:
            raise RefusedTarget("a base address has neither query nor fragment: leave them out")
        if parts.admit is not None:
            await parts.admit(address)
    except TransportError as error:
        message = f"address {address[:140]!r} is refused: {error}"
        raise invalid("/address", "invalid", message) from None
    return address.rstrip("/")


def _sign(item: bytes, value: object, service: str) -> bytes:
    """The definition with the service's name where it does not say who made it."""
    if not isinstance(value, dict):
        return item
    signature = msgspec.json.encode(service)
    left_out = [name for name in ("creator", "creatorName") if value.get(name) is None]
    return put_in(item, dict.fromkeys(left_out, signature))


def _below(index: int, flaws: Iterable[Flaw]) -> list[Flaw]:
    return [Problem(f"/timers/{index}{flaw.pointer}", flaw.code, flaw.message) for flaw in flaws]
