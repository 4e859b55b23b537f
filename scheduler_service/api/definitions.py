"""From a posted body to a checked definition, with the text that is kept of it."""

from collections.abc import Iterable

import msgspec

from client_sdk.models import JobDefinition, ModelError, parse_definition, point_to_posted
from scheduler_service.api.parts import ApiParts
from scheduler_service.api.problems import Flaw, invalid, invalid_all
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.engine.compile import below_timer
from scheduler_service.ports import Definition
from scheduler_service.timing.firings import warnings_at

ADMIN = "admin"


class Posted(msgspec.Struct, frozen=True):
    """A definition that may go into a turn, and what is worth saying about it."""

    job_id: str
    definition: Definition
    warnings: tuple[Flaw, ...]
    active: bool | None


def check_posted(parts: ApiParts, raw: bytes, value: object, job_id: str | None) -> Posted:
    """Checks `value`, the JSON of `raw`; `job_id` is that of the path. Raises ApiProblem (422).

    The text is kept as it was posted, with `jobId` and the caller's name put in where they were left out.
    """
    if not isinstance(value, dict):
        raise invalid("", "type", "a definition must be a JSON object")
    added = _left_out(parts, value, job_id)
    parsed = _parse(value | added if added else value)
    if job_id is not None and parsed.job_id != job_id:
        raise invalid("/jobId", "mismatch", f"jobId {parsed.job_id!r} must be {job_id!r}, as in the path")
    try:
        compiled = parts.compile_definition(parsed, parts.surroundings)
    except DefinitionError as error:
        raise invalid_all(_point(error.problems, value)) from None
    program = compiled.program
    late = below_timer(warnings_at(program.timer, parts.clock.now().wall))
    return Posted(
        program.job_id,
        Definition(_put_in(raw, added) if added else raw, program),
        _point((*compiled.warnings, *late), value),
        parsed.active if "active" in parsed.model_fields_set else None,
    )


def _left_out(parts: ApiParts, value: dict[str, object], job_id: str | None) -> dict[str, object]:
    known: dict[str, object] = {} if job_id is None else {"jobId": job_id}
    if parts.admin_key is not None:
        known |= {"creator": ADMIN, "creatorName": ADMIN}
    return {name: known[name] for name in known if value.get(name) is None}


def _parse(value: dict[str, object]) -> JobDefinition:
    try:
        return parse_definition(value)
    except ModelError as error:
        raise invalid_all(_point(error.problems, value)) from None


def _point(flaws: Iterable[Flaw], value: dict[str, object]) -> tuple[Flaw, ...]:
    """The flaws, each pointing to a member that was posted."""
    return tuple(Problem(point_to_posted(flaw.pointer, value), flaw.code, flaw.message) for flaw in flaws)


def _put_in(raw: bytes, added: dict[str, object]) -> bytes:
    """`raw`, a JSON object, with `added` behind its own members: the last one of a name counts."""
    members = msgspec.json.encode(added)[1:]
    body = raw.rstrip()[:-1].rstrip()
    return body + (members if body.endswith(b"{") else b"," + members)
