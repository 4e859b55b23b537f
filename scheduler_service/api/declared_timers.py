"""Declared timers in a registration: each is checked like a job, with its problems below `/timers/INDEX`."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus

import msgspec

from client_sdk.models import Problem
from scheduler_service.api.bodies import read_json
from scheduler_service.api.definitions import add_members, check_posted
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ApiProblem, Flaw, invalid, invalid_all, refuse
from scheduler_service.services.registry import TimerDeclaration, digest_of
from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.errors import RefusedTarget, TransportError

MAX_TIMERS = 1_000


class _Body(msgspec.Struct):
    timers: msgspec.Raw = msgspec.Raw(b"null")


_BODY = msgspec.json.Decoder(_Body)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


async def read_registration(request: ApiRequest) -> tuple[bytes, dict[str, object]]:
    """The body, an object: `timers` may be as large as an array, the rest as an object.

    Raises ApiProblem (400, 413, 415, 422).
    """
    deps = request.deps
    raw = await request.body(deps.array_bytes) or b"{}"
    if len(raw) > deps.body_bytes and len(raw) - _size_of_timers(raw) > deps.body_bytes:
        text = f"the body without its timers is larger than {deps.body_bytes:,} bytes; shorten it"
        raise refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "", "too_large", text)
    value = read_json(raw)
    if not isinstance(value, dict):
        raise invalid("", "type", "the body must be a JSON object")
    return raw, value


def read_declaration(
    deps: ApiDependencies,
    service: str,
    raw: bytes,
    values: Sequence[object] | None,
    *,
    current_digest: bytes | None = None,
) -> tuple[TimerDeclaration | None, tuple[Flaw, ...]]:
    """The timers in the body `raw`, whose values are `values`, and their warnings; None: it has no timers.

    Timers with `current_digest` are not checked again: that was done when they were declared. Where a
    definition has no creator, the service is its creator. Raises ApiProblem (422) with all problems.
    """
    text = bytes(_BODY.decode(raw).timers)
    if text == b"null" or values is None:
        return None, ()
    digest = digest_of(text)
    if digest == current_digest:
        return TimerDeclaration(digest), ()
    kept, warnings = _check_timers(deps, text, values, service)
    return TimerDeclaration(digest, kept), warnings


async def check_address(deps: ApiDependencies, address: str | None) -> str:
    """A base address `http(s)://host[:port][/path]` without its last slash; None becomes empty.

    Without a key any local caller may register, so the address is checked like a job's target (SPEC
    section 9). Raises ApiProblem (422).
    """
    if address is None:
        return ""
    try:
        read_url(address)
        if "?" in address or "#" in address:
            raise RefusedTarget("a base address has neither query nor fragment: leave them out")
        if deps.admit is not None:
            await deps.admit(address)
    except TransportError as error:
        message = f"address {address[:140]!r} is refused: {error}"
        raise invalid("/address", "invalid", message) from None
    return address.rstrip("/")


def _check_timers(
    deps: ApiDependencies, text: bytes, values: Sequence[object], service: str
) -> tuple[bytes, tuple[Flaw, ...]]:
    """The text to keep, and the warnings."""
    if len(values) > MAX_TIMERS:
        message = f"{len(values)} timers are too many; declare at most {MAX_TIMERS}"
        raise invalid("/timers", "range", message)
    kept: list[bytes] = []
    warnings: list[Flaw] = []
    errors: list[Flaw] = []
    seen: set[str] = set()
    for index, (value, item) in enumerate(zip(values, _ITEMS.decode(text), strict=True)):
        try:
            checked = check_posted(deps, _add_creator(bytes(item), value, service), None)
        except ApiProblem as problem:
            errors.extend(_below(index, (Problem(**error) for error in problem.errors)))
            continue
        if checked.job_id in seen:
            message = f"jobId {checked.job_id!r} is declared twice; a job is declared once"
            errors.append(Problem(f"/timers/{index}/jobId", "duplicate", message))
        seen.add(checked.job_id)
        kept.append(checked.definition.text)
        warnings.extend(_below(index, checked.warnings))
    if errors:
        raise invalid_all(errors)
    return b"[" + b",".join(kept) + b"]", tuple(warnings)


def _size_of_timers(raw: bytes) -> int:
    """The bytes of `timers` in `raw`, which need not be valid JSON."""
    try:
        return len(_BODY.decode(raw).timers)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0


def _add_creator(item: bytes, value: object, service: str) -> bytes:
    if not isinstance(value, dict):
        return item
    left_out = [name for name in ("creator", "creatorName") if value.get(name) is None]
    return add_members(item, dict.fromkeys(left_out, msgspec.json.encode(service)))


def _below(index: int, flaws: Iterable[Flaw]) -> list[Flaw]:
    return [Problem(f"/timers/{index}{flaw.pointer}", flaw.code, flaw.message) for flaw in flaws]
