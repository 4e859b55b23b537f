"""The jobs that a registration declares: their form, their warnings (SPEC sections 11 and 13)."""

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec

from client_sdk.models import Problem
from scheduler_service.api.definitions import Creator, check_posted
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.name_warnings import find_refused_names, warn_of_names
from scheduler_service.api.responses import ApiProblem, Flaw, invalid, invalid_all
from scheduler_service.hosts.large_work import Slices
from scheduler_service.services.registry import TimerDeclaration, digest_of

MAX_TIMERS = 1_000


class _Body(msgspec.Struct):
    timers: msgspec.Raw = msgspec.Raw(b"null")


_BODY = msgspec.json.Decoder(_Body)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


async def read_declaration(
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
    kept, warnings = await _check_timers(deps, text, values, service)
    return TimerDeclaration(digest, kept), warnings


async def add_name_warnings(
    deps: ApiDependencies, timers: TimerDeclaration | None, warnings: tuple[Flaw, ...]
) -> tuple[Flaw, ...]:
    """`warnings`, with those about the host names of timers that are new or changed."""
    text = None if timers is None else timers.text
    refused = {} if text is None else await find_refused_names(deps, text)
    if text is None or not refused:
        return warnings
    found = []
    slices = Slices()
    for index, item in enumerate(map(bytes, _ITEMS.decode(text))):
        await slices.pause(len(item))
        found.append(_below(index, await warn_of_names(item, refused)))
    return (*warnings, *chain.from_iterable(found))


def log_warnings(deps: ApiDependencies, service: str, warnings: Iterable[Flaw]) -> None:
    """Logs the warnings about new or changed jobs: a service that declares them may read none."""
    for warning in warnings:
        deps.log(
            "declaration_warned",
            service=service,
            pointer=warning.pointer,
            code=warning.code,
            message=warning.message,
        )


def size_of_timers(raw: bytes) -> int:
    """The bytes of `timers` in `raw`, which need not be valid JSON."""
    try:
        return len(_BODY.decode(raw).timers)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0


async def _check_timers(
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
    slices = Slices()
    for index, item in enumerate(map(bytes, _ITEMS.decode(text))):
        await slices.pause(len(item))
        try:
            checked = await check_posted(deps, item, None, Creator(service, service))
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


def _below(index: int, flaws: Iterable[Flaw]) -> list[Flaw]:
    return [Problem(f"/timers/{index}{flaw.pointer}", flaw.code, flaw.message) for flaw in flaws]
