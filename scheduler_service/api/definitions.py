"""From a posted body to a checked definition, with the text that is kept of it, and its warnings."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

from client_sdk.models import JobDefinition, ModelError, parse_definition, point_to_posted
from scheduler_service.api.bodies import read_json, refuse_repeated_name
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.responses import ApiProblem, FoundFlaw, invalid, invalid_all
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import DEFAULT_TENANT, TRIALS, write_job_key
from scheduler_service.domain.token_masks import MARK
from scheduler_service.engine.compile import Compiled
from scheduler_service.engine.compile_cache import (
    SERVICE_OPTIONS,
    BatchLookup,
    CachedDefinition,
    Members,
    posted_active,
    read_active,
    read_members,
    with_service_options,
)
from scheduler_service.engine.definition_checks import find_further, find_too_many
from scheduler_service.engine.program import Program, Target, weigh
from scheduler_service.engine.warnings import find_missing_secrets
from scheduler_service.hosts.work_thread import work_apart, work_by_size
from scheduler_service.language.json_pieces import decode_json
from scheduler_service.language.json_scan import count_colons
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.delivery import Definition
from scheduler_service.security.callers import Caller

SCHEMA = "paramsSchema"
CREATOR = frozenset(("creator", "creatorName"))
_NULL = msgspec.Raw(b"null")
_HOST = re.compile(r"(?i:https?)://([a-z0-9_-][a-z0-9._-]*)(?=[:/?#]|\Z)", re.IGNORECASE)
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
MAX_FOUND = 10_000
"""How many URLs of one request are looked at: a thousand definitions have a few each."""
MOST_PLAIN = 20
"""So many warnings of one kind a definition gets."""
_OWN = ("localhost", ".localhost")
Hosts = tuple[tuple[str, str], ...]
"""(pointer, host name) of URLs in which the host is written out as a name."""


class _JobIdMember(msgspec.Struct, frozen=True, rename="camel"):
    job_id: Any = None


_NAMED = msgspec.json.Decoder(_JobIdMember)


class Creator(msgspec.Struct, frozen=True, gc=False):
    """The creator of a job whose definition names none (SPEC section 2), and the tenant of the job.

    `is_bound`: a definition that is declared may name no other one. `options`: those of the service to which
    the job belongs, as `Service.options_of_jobs`. `caller`: what it does not see of jobs is not compared.
    """

    creator: str
    name: str
    tenant: str = DEFAULT_TENANT
    is_bound: bool = False
    options: bytes = b""
    caller: Caller | None = None


class PostedDefinition(msgspec.Struct, frozen=True, gc=False):
    """A definition that may go into a turn, with its warnings. `active` None: not posted.

    `has_creator`: it names its creator itself, and both by name and by id. `hosts`: to whom it sends.
    `masked`: where it has `***` as a credential.
    """

    definition: Definition
    warnings: tuple[FoundFlaw, ...]
    active: bool | None
    has_creator: bool
    hosts: Hosts
    masked: tuple[str, ...] = ()

    @property
    def job_id(self) -> str:
        """That of the job."""
        return self.definition.program.job_id


async def check_posted(
    deps: ApiDependencies, raw: bytes, job_id: str | None, by: Creator, *, is_trial: bool = False
) -> PostedDefinition:
    """Checks `raw`, a definition in JSON; `job_id` is that of the path. Raises ApiProblem (400, 422).

    The text is kept as it was posted; `jobId` and the creator are added where they were left out.
    `is_trial`: it may have the parent of trials.
    """
    await look_at_calendars(deps, raw)
    return await DefinitionChecks(deps, by, is_trial=is_trial).check(raw, job_id)


async def look_at_calendars(deps: ApiDependencies, raw: bytes) -> None:
    """Where definitions may name a calendar, what others have stored is known. Raises StoreUnavailable."""
    if b"calendar" in raw:
        await deps.definitions.calendars.look()


class DefinitionChecks:
    """Checks the definitions of one request, all as of the same moment; a large one beside the loop."""

    def __init__(self, deps: ApiDependencies, by: Creator, *, is_trial: bool = False) -> None:
        self._deps = deps
        self._by = by
        self._is_trial = is_trial
        cache = deps.definitions.compiler.compile_cache
        self._lookup = BatchLookup(cache=cache, now=deps.clock.now().wall, tenant=by.tenant)

    async def check(self, raw: bytes, job_id: str | None = None) -> PostedDefinition:
        """As `check_posted`. Raises StoreUnavailable where it is compared with the job that is stored."""
        raw = self._with_options(raw)
        try:
            checked = await self._check(raw, job_id)
        except ApiProblem as problem:
            same = await self._find_same(raw, job_id, problem)
            if same is None:
                raise
            checked = same
        if checked.masked:
            await self._refuse_lost(checked)
        return checked

    async def _check(self, raw: bytes, job_id: str | None) -> PostedDefinition:
        if len(raw) > LARGE_BYTES:
            return (await work_apart(lambda: self._compile(raw, _read_posted(self._by, raw, job_id))))[0]
        posted = _read_posted(self._by, raw, job_id)
        found = self._find(raw, posted)
        if found is not None:
            return found
        if SCHEMA in posted.members:  # a short one may take long to check
            checked, compiled = await work_apart(lambda: self._compile(raw, posted))
        else:
            checked, compiled = self._compile(raw, posted)
        cache = self._deps.definitions.compiler.compile_cache
        cache.add(posted.members, compiled, active=checked.active, colons=posted.colons)
        return checked

    def find(self, raw: bytes) -> PostedDefinition | None:
        """As `check`, for a definition whose shape is cached and that has no `***`; else None."""
        raw = self._with_options(raw)
        found = None if len(raw) > LARGE_BYTES else self._find(raw, _read_posted(self._by, raw, None))
        return None if found is None or found.masked else found

    async def _find_same(
        self, raw: bytes, job_id: str | None, problem: ApiProblem
    ) -> PostedDefinition | None:
        """The definition that its job has already: names that are refused of others are warned of."""
        named = id_of(raw) if job_id is None else job_id
        if named is None or {one["code"] for one in problem.errors} != {"control"}:
            return None
        stored = await self._read_stored(named)
        if stored is None:
            return None
        posted = await work_by_size(len(raw), lambda: _read_posted(self._by, raw, job_id))
        if not await work_by_size(len(raw) + len(stored), lambda: _is_same(posted, raw, stored)):
            return None
        text = posted.write(raw)
        program = await self._deps.definitions.compiler.stored(text, self._by.tenant)
        active = read_active(text) if "active" in posted.members else None
        found = CachedDefinition(program, (), active)
        same = await work_by_size(len(raw), lambda: self._conclude(raw, posted, found))
        warnings = (*(Problem(**error) for error in problem.errors), *same.warnings)
        return msgspec.structs.replace(same, warnings=warnings)

    async def _refuse_lost(self, checked: PostedDefinition) -> None:
        """Raises ApiProblem (422) where it has `***` and its job another credential, which would be lost."""
        stored = await self._read_stored(checked.job_id) or b"{}"
        find = self._deps.security.masking.find_plain
        before = await work_by_size(len(stored), lambda: find(stored))
        kept = {pointer for pointer, value in before if value != MARK}
        more = Counter(checked.masked) - Counter(pointer for pointer, value in before if value == MARK)
        text = "is hidden, so that its value would be lost; write it, or ${secrets.NAME}"
        lost = [Problem(pointer, "masked", f"{pointer} {text}") for pointer in more if pointer in kept]
        if lost:
            raise invalid_all(lost)

    async def _read_stored(self, job_id: str) -> bytes | None:
        """The definition of this job, where the caller sees one. Raises StoreUnavailable."""
        entry = await self._deps.catalogue.get(write_job_key(self._by.tenant, job_id))
        if entry is None or entry.state is JobState.DESTROYED:
            return None
        caller = self._by.caller
        if caller is not None and not caller.covers(entry.creator, entry.labels):
            return None
        return await self._deps.store.definition(entry.uid, entry.revision)

    def _with_options(self, raw: bytes) -> bytes:
        if not self._by.options and SERVICE_OPTIONS not in raw:
            return raw
        read_json(raw)  # what is written anew has each name once
        return with_service_options(raw, self._by.options)

    def _find(self, raw: bytes, posted: "_PostedMembers") -> PostedDefinition | None:
        found = self._lookup.find(posted.members, posted.colons)
        if found is None or posted.job_id not in (None, found.program.job_id):
            return None
        if signs := found.program.signs:
            tenant = self._by.tenant
            judge = self._deps.definitions.compiler.around(tenant).judge_secret
            if judge is not None and any(judge(tenant, one) for one in signs):
                return None  # a secret is gone since: compiled anew, its pointer is found
        return self._conclude(raw, posted, found)

    def _compile(self, raw: bytes, posted: "_PostedMembers") -> tuple[PostedDefinition, Compiled]:
        """Parses and compiles, which also finds all errors; the cache is the loop's, and left alone."""
        value = read_json(raw)
        if not isinstance(value, dict):
            raise invalid("", "type", "a definition must be a JSON object")
        too_many = tuple(find_too_many(value))
        if too_many:
            raise invalid_all(_point(too_many, value))
        try:
            filled = value | {name: msgspec.json.decode(text) for name, text in posted.added.items()}
            parsed = parse_definition(filled, is_json=True)
        except ModelError as error:
            further = self._find_further(error, filled, len(raw))
            raise invalid_all(_point((*error.problems, *further), value)) from None
        if isinstance(held := value.get("timer"), str):  # the JSON of an object
            refuse_repeated_name(held.encode(), "/timer")
        if posted.job_id not in (None, parsed.job_id):
            message = f"jobId {parsed.job_id!r} must be {posted.job_id!r}, as in the path"
            raise invalid("/jobId", "mismatch", message)
        if parsed.service_options is not None and not self._by.options:  # its name was escaped
            raise invalid("/serviceOptions", "reserved", "serviceOptions is the scheduler's; leave it out")
        deps, reserved = self._deps, () if self._is_trial else _find_reserved(parsed)
        try:
            compiled = deps.definitions.compiler.posted(parsed, self._by.tenant)
        except DefinitionError as error:
            raise invalid_all(_point((*error.problems, *reserved), value)) from None
        if reserved:
            raise invalid_all(reserved)
        found = CachedDefinition(compiled.program, compiled.warnings, posted_active(parsed))
        return self._conclude(raw, posted, self._lookup.complete(found)), compiled

    def _conclude(self, raw: bytes, posted: "_PostedMembers", found: CachedDefinition) -> PostedDefinition:
        text = posted.write(raw)
        flaws = found.warnings
        if found.program.secrets:
            flaws = (*flaws, *find_missing_secrets(found.program))
        warnings = _point(flaws, decode_json(raw)) if flaws else ()
        masked: tuple[str, ...] = ()
        if plain := self._deps.security.masking.find_plain(raw):
            warnings = (*warnings, *(_warn_of_plain(*one) for one in plain[:MOST_PLAIN]))
            masked = tuple(pointer for pointer, value in plain if value == MARK)
        return PostedDefinition(
            Definition(text, found.program, weigh(text)),
            warnings,
            found.active,
            has_creator=CREATOR.isdisjoint(posted.added),
            hosts=_hosts_of(found.program),
            masked=masked,
        )

    def _find_further(self, error: ModelError, value: dict[str, object], size: int) -> Iterable[Problem]:
        """What is wrong with its texts beside its form, unless it is large."""
        if size > LARGE_BYTES:
            return ()
        compiler, wrong = self._deps.definitions.compiler, [one.pointer for one in error.problems]
        return find_further(deepcopy(value), wrong, lambda rest: compiler.posted(rest, self._by.tenant))


def id_of(raw: bytes) -> str | None:
    """`jobId` of a definition in JSON, if it is a string; nothing else of it is read."""
    try:
        job_id = _NAMED.decode(raw).job_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return job_id if isinstance(job_id, str) else None


class _PostedMembers(msgspec.Struct, frozen=True, gc=False):
    """The members of a definition; `added` are those of them that it left out, as JSON.

    `colons`: of its text and of what is added, as `CompileCache.find` takes them. `had_null`: one
    of those that are added was null.
    """

    job_id: str | None
    members: Members
    added: dict[str, bytes]
    colons: int
    had_null: bool = False

    def write(self, raw: bytes) -> bytes:
        """The text to keep of `raw`, of which they are."""
        return msgspec.json.encode(self.members) if self.had_null else add_members(raw, self.added)


def _read_posted(by: Creator, raw: bytes, job_id: str | None) -> _PostedMembers:
    members, colons = read_members(raw) or {}, count_colons(raw)
    get = members.get
    if job_id is None and get("creator", _NULL) != _NULL and get("creatorName", _NULL) != _NULL:
        return _PostedMembers(None, members, {}, colons)
    added = _left_out(by, job_id, members)
    had_null = not members.keys().isdisjoint(added)
    if added:
        colons += sum((name not in members) + text.count(b":") for name, text in added.items())
        members |= {name: msgspec.Raw(text) for name, text in added.items()}
    return _PostedMembers(job_id, members, added, colons, had_null)


def _left_out(by: Creator, job_id: str | None, members: Members) -> dict[str, bytes]:
    """The members that are absent and known from the path or the caller, as JSON."""
    known: dict[str, str] = {} if job_id is None else {"jobId": job_id}
    known |= {"creator": by.creator, "creatorName": by.name}
    absent = (name for name in known if bytes(members.get(name, _NULL)) == b"null")
    return {name: msgspec.json.encode(known[name]) for name in absent}


def _is_same(posted: _PostedMembers, raw: bytes, stored: bytes) -> bool:
    """Whether the definition is the one that is stored; a creator that it does not name is not compared."""
    new, old = decode_json(posted.write(raw)), decode_json(stored)
    return bool(old == new | {name: old.get(name) for name in CREATOR & posted.added.keys()})


def _warn_of_plain(pointer: str, value: str) -> Problem:
    """A credential that stands in a definition, or the `***` that somebody was shown of one."""
    if value == MARK:
        text = f"is {MARK}, as hidden values are shown, and is sent so; write its value, or ${{secrets.NAME}}"
        return Problem(pointer, "masked", f"{pointer} {text}")
    text = "stands here for all who may edit; store it as a secret and write ${secrets.NAME}"
    return Problem(pointer, "plain_secret", f"{pointer} {text}")


def _find_reserved(definition: JobDefinition) -> tuple[FoundFlaw, ...]:
    """A job with the parent of trials might be hidden, and destroyed by the service."""
    if definition.parent_job != TRIALS:
        return ()
    text = f"{TRIALS!r} is the parent of trials, which the service destroys; name another, or leave it out"
    return (Problem("/parentJob", "reserved", text),)


def _point(flaws: Iterable[FoundFlaw], value: dict[str, object]) -> tuple[FoundFlaw, ...]:
    """The flaws, each with a pointer to a posted member."""
    return tuple(Problem(point_to_posted(flaw.pointer, value), flaw.code, flaw.message) for flaw in flaws)


def add_members(raw: bytes, added: dict[str, bytes]) -> bytes:
    """`raw`, a JSON object, with `added`, which it does not have, after its own members."""
    if not added:
        return raw
    members = b",".join(b'"%s":%s' % (name.encode(), text) for name, text in added.items()) + b"}"
    body = raw.rstrip()[:-1].rstrip()
    return body + (members if body.endswith(b"{") else b"," + members)


async def warn_of_hosts(
    deps: ApiDependencies, checked: Sequence[tuple[bytes, Hosts]]
) -> list[tuple[FoundFlaw, ...]]:
    """For each definition, its text and its hosts, a warning for each host name that is refused today.

    All names are looked up together; that takes a moment at most, and nothing where there are none.
    """
    names = dict.fromkeys(host for _, hosts in checked for _, host in hosts)
    if deps.definitions.check_names is None or not names:
        return [()] * len(checked)
    refused = await deps.definitions.check_names(list(islice(names, MAX_FOUND)))
    slices, warned = Slices(), list[tuple[FoundFlaw, ...]]()
    for text, hosts in checked:
        found = [(pointer, host) for pointer, host in hosts if host in refused]
        await slices.pause(len(text) if found else 0)
        flaws = [_warn(pointer, host, refused[host]) for pointer, host in found]
        warned.append(_point(flaws, decode_json(text)) if flaws else ())
    return warned


async def warnings_today(deps: ApiDependencies, checked: PostedDefinition) -> tuple[FoundFlaw, ...]:
    """The warnings about a definition, those about its host names last."""
    (found,) = await warn_of_hosts(deps, [(checked.definition.text, checked.hosts)])
    return (*checked.warnings, *found)


def _hosts_of(program: Program) -> Hosts:
    """Without services, addresses, and the names of this machine."""
    found = [(f"/request/{step.index}/url", host) for step in program.steps if (host := _host(step.target))]
    if program.check and (host := _host(program.check)):
        found.append(("/checkUrl/url", host))
    if program.cancel and (host := _host(program.cancel)):
        found.append(("/cancelUrl/url", host))
    for index, entry in enumerate(program.notifications):
        if host := _host(entry.target):
            found.append((f"/notification/{index}/url", host))
    return tuple(found)


def _host(target: Target) -> str:
    parts = target.url.parts
    if not parts or not isinstance(parts[0], str) or target.service_name is not None:
        return ""
    return _host_at(parts[0], len(parts) == 1)


@lru_cache(256)
def _host_at(begin: str, is_all: bool) -> str:
    """Of a URL that begins so; many definitions have the same."""
    match = _HOST.match(begin)
    if match is None or (match.end() == len(begin) and not is_all):
        return ""
    host = match[1].lower().removesuffix(".")
    return "" if _NUMERIC.fullmatch(host) or host.endswith(_OWN) else host


def _warn(pointer: str, host: str, reason: str) -> Problem:
    text = f"{host} cannot be reached today: {reason}; requests to it fail with egress"
    return Problem(pointer, "egress_today", text)
