"""The jobs that a registration declares: their form, their warnings (SPEC sections 11 and 13)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from client_sdk.models import Problem
from scheduler_service.api.definitions import Creator, check_posted
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.name_warnings import find_refused_names, warn_of_names
from scheduler_service.api.registrations import MAX_TIMERS, PostedTimers
from scheduler_service.api.responses import ApiProblem, Flaw, invalid, invalid_all
from scheduler_service.hosts.large_work import work_by_size
from scheduler_service.pacing.slices import Slices
from scheduler_service.services.registry import TimerDeclaration


async def read_declaration(
    deps: ApiDependencies,
    service: str,
    posted: PostedTimers | None,
    *,
    current_digest: bytes | None = None,
) -> tuple[TimerDeclaration | None, tuple[Flaw, ...]]:
    """The timers that are `posted`, and their warnings, also those about host names; None: none are.

    Timers with `current_digest` are not checked again: that was done when they were declared. Where a
    definition has no creator, the service is its creator. Raises ApiProblem (422) with all problems.
    """
    if posted is None:
        return None, ()
    if posted.digest == current_digest:
        return TimerDeclaration(posted.digest), ()
    kept, warnings = await _check_timers(deps, posted.items, service)
    warnings += await _warn_of_names(deps, kept)
    size = sum(map(len, kept))
    text = await work_by_size(size, lambda: b"".join(_as_array(kept)))
    return TimerDeclaration(posted.digest, text), warnings


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


def _as_array(items: Sequence[bytes]) -> Iterator[bytes]:
    """The pieces of a JSON array, to be joined once: a large one is not copied again."""
    for index, item in enumerate(items):
        yield b"," if index else b"["
        yield item
    yield b"]" if items else b"[]"


async def _warn_of_names(deps: ApiDependencies, items: Sequence[bytes]) -> tuple[Flaw, ...]:
    refused = await find_refused_names(deps, *items)
    if not refused:
        return ()
    found = []
    slices = Slices()
    for index, item in enumerate(items):
        await slices.pause(len(item))
        found.append(_below(index, await warn_of_names(item, refused)))
    return tuple(chain.from_iterable(found))


async def _check_timers(
    deps: ApiDependencies, items: Sequence[bytes], service: str
) -> tuple[list[bytes], tuple[Flaw, ...]]:
    """The texts to keep, and the warnings."""
    if len(items) > MAX_TIMERS:
        message = f"{len(items)} timers are too many; declare at most {MAX_TIMERS}"
        raise invalid("/timers", "range", message)
    kept: list[bytes] = []
    warnings: list[Flaw] = []
    errors: list[Flaw] = []
    seen: set[str] = set()
    slices = Slices()
    for index, item in enumerate(items):
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
    return kept, tuple(warnings)


def _below(index: int, flaws: Iterable[Flaw]) -> list[Flaw]:
    return [Problem(f"/timers/{index}{flaw.pointer}", flaw.code, flaw.message) for flaw in flaws]
