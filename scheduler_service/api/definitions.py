"""From a posted body to a checked definition, with the text that is kept of it."""

from collections.abc import Callable, Iterable

import msgspec

from client_sdk.models import JobDefinition, ModelError, parse_definition, point_to_posted
from scheduler_service.api.bodies import read_json
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.problems import Flaw, invalid, invalid_all
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.engine.compile_cache import (
    BatchLookup,
    CachedDefinition,
    Members,
    posted_active,
    read_members,
)
from scheduler_service.ports.delivery import Definition

ADMIN = "admin"


class Posted(msgspec.Struct, frozen=True, gc=False):
    """A definition that may go into a turn, and what is worth saying about it."""

    job_id: str
    definition: Definition
    warnings: tuple[Flaw, ...]
    active: bool | None


def check_posted(parts: ApiDependencies, raw: bytes, job_id: str | None) -> Posted:
    """Checks `raw`, a definition in JSON; `job_id` is that of the path. Raises ApiProblem (400, 422).

    The text is kept as it was posted, with `jobId` and the caller's name put in where they were left out.
    """
    return Checks(parts).check(raw, job_id)


class Checks:
    """Checks definitions that come together, as of one moment."""

    def __init__(self, parts: ApiDependencies) -> None:
        self._parts = parts
        self._lookup = BatchLookup(cache=parts.compile_cache, now=parts.clock.now().wall)

    def check(self, raw: bytes, job_id: str | None = None) -> Posted:
        """As `check_posted`."""
        given = _read_given(self._parts, raw, job_id)
        return self._find(raw, given) or self._compile(raw, given)

    def recognize(self, raw: bytes) -> Posted | None:
        """As `check`, where that is quickly known; else None."""
        return self._find(raw, _read_given(self._parts, raw, None))

    def _find(self, raw: bytes, given: "_Given") -> Posted | None:
        """The short way, for a definition like others before it."""
        found = self._lookup.find(given.members)
        if found is None or given.job_id not in (None, found.program.job_id):
            return None
        return _conclude(raw, given, found)

    def _compile(self, raw: bytes, given: "_Given") -> Posted:
        """The long way, which also says what is wrong."""
        value = read_json(raw)
        if not isinstance(value, dict):
            raise invalid("", "type", "a definition must be a JSON object")
        parsed = _parse(value | {name: msgspec.json.decode(text) for name, text in given.added.items()})
        if given.job_id not in (None, parsed.job_id):
            told = f"jobId {parsed.job_id!r} must be {given.job_id!r}, as in the path"
            raise invalid("/jobId", "mismatch", told)
        parts = self._parts
        try:
            compiled = parts.compile_definition(parsed, parts.surroundings)
        except DefinitionError as error:
            raise invalid_all(_point(error.problems, value)) from None
        found = CachedDefinition(compiled.program, compiled.warnings, posted_active(parsed))
        parts.compile_cache.add(given.members, compiled, active=found.active)
        return _conclude(raw, given, self._lookup.complete(found))


class Unchecked(msgspec.Struct, frozen=True, gc=False):
    """A definition that nobody has checked: the id that it gives itself, and the text that would be kept."""

    job_id: str | None
    text: bytes


def take_unchecked(parts: ApiDependencies, raw: bytes, value: object) -> Unchecked:
    """What is to be seen of a definition without checking it: `value`, written as `raw`."""
    if not isinstance(value, dict):
        return Unchecked(None, raw)
    added = _left_out(parts, None, lambda name: value.get(name) is None)
    return Unchecked(id_of(value), put_in(raw, added))


def id_of(value: object) -> str | None:
    """The id that a definition gives itself, as far as it is one."""
    job_id = value.get("jobId") if isinstance(value, dict) else None
    return job_id if isinstance(job_id, str) else None


class _Given(msgspec.Struct, frozen=True, gc=False):
    """The members of a definition and, among them, those that it does not say itself, as JSON."""

    job_id: str | None
    members: Members
    added: dict[str, bytes]


def _read_given(parts: ApiDependencies, raw: bytes, job_id: str | None) -> _Given:
    members = read_members(raw) or {}
    added = _left_out(parts, job_id, lambda name: name not in members or bytes(members[name]) == b"null")
    if added:
        members |= {name: msgspec.Raw(text) for name, text in added.items()}
    return _Given(job_id, members, added)


def _left_out(
    parts: ApiDependencies, job_id: str | None, is_absent: Callable[[str], bool]
) -> dict[str, bytes]:
    """What the path and the key say of a definition that does not say it itself, as JSON."""
    if job_id is None and parts.admin_key is None:
        return {}
    known: dict[str, str] = {} if job_id is None else {"jobId": job_id}
    if parts.admin_key is not None:
        known |= {"creator": ADMIN, "creatorName": ADMIN}
    return {name: msgspec.json.encode(text) for name, text in known.items() if is_absent(name)}


def _conclude(raw: bytes, given: _Given, found: CachedDefinition) -> Posted:
    return Posted(
        found.program.job_id,
        Definition(put_in(raw, given.added), found.program),
        _point(found.warnings, msgspec.json.decode(raw)) if found.warnings else (),
        found.active,
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
    if not added:
        return raw
    members = b",".join(b'"%s":%s' % (name.encode(), text) for name, text in added.items()) + b"}"
    body = raw.rstrip()[:-1].rstrip()
    return body + (members if body.endswith(b"{") else b"," + members)
