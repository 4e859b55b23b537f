"""From a posted body to a checked definition, with the text that is kept of it."""

from collections.abc import Iterable

import msgspec

from client_sdk.models import JobDefinition, ModelError, parse_definition, point_to_posted
from scheduler_service.api.bodies import read_json
from scheduler_service.api.parts import ApiParts
from scheduler_service.api.problems import Flaw, invalid, invalid_all
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.engine.compile import below_timer
from scheduler_service.engine.moulds import Cast, Members, posted_active, read_members
from scheduler_service.ports import Definition
from scheduler_service.timing.firings import warnings_at

ADMIN = "admin"


class Posted(msgspec.Struct, frozen=True):
    """A definition that may go into a turn, and what is worth saying about it."""

    job_id: str
    definition: Definition
    warnings: tuple[Flaw, ...]
    active: bool | None


def check_posted(parts: ApiParts, raw: bytes, job_id: str | None) -> Posted:
    """Checks `raw`, a definition in JSON; `job_id` is that of the path. Raises ApiProblem (400, 422).

    The text is kept as it was posted, with `jobId` and the caller's name put in where they were left out.
    """
    given = _read_given(parts, raw, job_id)
    return _cast(parts, raw, given) or _compile(parts, raw, given)


def recognize(parts: ApiParts, raw: bytes) -> Posted | None:
    """`raw`, a definition in JSON, as `check_posted` takes it, where that is quickly known; else None."""
    return _cast(parts, raw, _read_given(parts, raw, None))


class _Given(msgspec.Struct, frozen=True):
    """The members of a definition and, among them, those that it does not say itself, as JSON."""

    job_id: str | None
    members: Members
    added: dict[str, bytes]


def _read_given(parts: ApiParts, raw: bytes, job_id: str | None) -> _Given:
    members = read_members(raw) or {}
    added = _left_out(parts, members, job_id)
    return _Given(job_id, members | {name: msgspec.Raw(text) for name, text in added.items()}, added)


def _left_out(parts: ApiParts, members: Members, job_id: str | None) -> dict[str, bytes]:
    """What the path and the key say of a definition that does not say it itself, as JSON."""
    known: dict[str, str] = {} if job_id is None else {"jobId": job_id}
    if parts.admin_key is not None:
        known |= {"creator": ADMIN, "creatorName": ADMIN}
    return {
        name: msgspec.json.encode(text)
        for name, text in known.items()
        if name not in members or bytes(members[name]) == b"null"
    }


def _cast(parts: ApiParts, raw: bytes, given: _Given) -> Posted | None:
    """The short way, for a definition like others before it."""
    cast = parts.moulds.cast(given.members)
    if cast is None or given.job_id not in (None, cast.program.job_id):
        return None
    return _conclude(parts, raw, given, cast)


def _compile(parts: ApiParts, raw: bytes, given: _Given) -> Posted:
    """The long way, which also says what is wrong."""
    value = read_json(raw)
    if not isinstance(value, dict):
        raise invalid("", "type", "a definition must be a JSON object")
    parsed = _parse(value | {name: msgspec.json.decode(text) for name, text in given.added.items()})
    if given.job_id not in (None, parsed.job_id):
        told = f"jobId {parsed.job_id!r} must be {given.job_id!r}, as in the path"
        raise invalid("/jobId", "mismatch", told)
    try:
        compiled = parts.compile_definition(parsed, parts.surroundings)
    except DefinitionError as error:
        raise invalid_all(_point(error.problems, value)) from None
    cast = Cast(compiled.program, compiled.warnings, posted_active(parsed))
    parts.moulds.keep(given.members, compiled, active=cast.active)
    return _conclude(parts, raw, given, cast)


def _conclude(parts: ApiParts, raw: bytes, given: _Given, cast: Cast) -> Posted:
    program = cast.program
    late = below_timer(warnings_at(program.timer, parts.clock.now().wall))
    warnings = (*cast.warnings, *late)
    return Posted(
        program.job_id,
        Definition(put_in(raw, given.added) if given.added else raw, program),
        _point(warnings, msgspec.json.decode(raw)) if warnings else (),
        cast.active,
    )


def _parse(value: dict[str, object]) -> JobDefinition:
    try:
        return parse_definition(value)
    except ModelError as error:
        raise invalid_all(_point(error.problems, value)) from None


def _point(flaws: Iterable[Flaw], value: dict[str, object]) -> tuple[Flaw, ...]:
    """The flaws, each pointing to a member that was posted."""
    return tuple(Problem(point_to_posted(flaw.pointer, value), flaw.code, flaw.message) for flaw in flaws)


def put_in(raw: bytes, added: dict[str, bytes]) -> bytes:
    """`raw`, a JSON object, with `added` behind its own members: the last one of a name counts."""
    members = b",".join(b'"%s":%s' % (name.encode(), text) for name, text in added.items()) + b"}"
    body = raw.rstrip()[:-1].rstrip()
    return body + (members if body.endswith(b"{") else b"," + members)
