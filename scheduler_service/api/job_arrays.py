"""`POST /jobs` with an array: each definition is created, updated or refused on its own (SPEC section 10)."""

from collections import deque
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from client_sdk.models import JobDefinition, answers
from scheduler_service.api import openapi_examples, parameters
from scheduler_service.api.audit_writing import AuditNote, Way, audited
from scheduler_service.api.bodies import read_each, read_items
from scheduler_service.api.definitions import (
    DefinitionChecks,
    Hosts,
    PostedDefinition,
    check_posted,
    id_of,
    look_at_calendars,
    warn_of_hosts,
)
from scheduler_service.api.job_commands import find_sender, keep_creator, read_owner, run_command
from scheduler_service.api.key_scopes import check_reach
from scheduler_service.api.request import OF_JOBS, ApiRequest, PostedBody, Routes
from scheduler_service.api.responses import (
    ApiProblem,
    FoundFlaw,
    count_fault,
    refused,
    store_problem,
    succeed,
    write_flaw,
)
from scheduler_service.domain.audit_acts import ActKind
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Refusal, RefusalCode, Reply, Taken, Unchanged
from scheduler_service.domain.turn_events import Updated
from scheduler_service.engine.compile_cache import read_active
from scheduler_service.engine.decide import OWN_JOB
from scheduler_service.engine.definition_checks import refuse_other_owner, refuse_ownerless
from scheduler_service.engine.program import GROUP_BYTES
from scheduler_service.hosts.work_thread import work_by_size
from scheduler_service.pacing.slices import Slices
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError, StoreStopping, StoreUncertain
from scheduler_service.security.callers import Role

ROUTES = Routes("jobs")

MAX_DEFINITIONS = 1_000
DIFFERS = Refusal(RefusalCode.CONFLICT, "the job has another definition", "/jobId")
Result = dict[str, Any]


@ROUTES.add(
    "POST /jobs",
    Role.EDITOR,
    scopes=OF_JOBS,
    query=(
        parameters.choice(
            "onExisting", "What to do with another definition.", ("refuse", "update"), "refuse"
        ),
    ),
    body=PostedBody(JobDefinition, openapi_examples.DEFINITIONS, required=True, is_array=True),
    data=answers.Results,
    headers=("X-Service",),
    is_busy=True,
    audit=Way.HANDLER,
    kind=ActKind.JOBS,
)
async def create_jobs(request: ApiRequest) -> Response:
    """Create or update up to 1,000 jobs, each on its own: one result per item, in order."""
    raw, texts = await _read_texts(request)
    may_update = request.query["onExisting"] == "update"

    async def work() -> dict[str, list[Result]]:
        return {"items": await _BulkJobs(request, raw, texts, may_update=may_update).create()}

    return succeed(await request.run_once("jobs", raw, work, is_final=_is_final))


@ROUTES.add(
    "POST /definitions/compare",
    Role.VIEWER,
    scopes=OF_JOBS,
    body=PostedBody(JobDefinition, openapi_examples.DEFINITIONS, required=True, is_array=True),
    data=answers.ComparedDefinitions,
    headers=("X-Service",),
    audit=Way.NONE,
)
async def compare_definitions(request: ApiRequest) -> Response:
    """Tell what applying up to 1,000 definitions would do to the jobs that there are; nothing is changed."""
    raw, texts = await _read_texts(request)
    return succeed({"items": await _ComparedJobs(request, raw, texts, may_update=True).create()})


async def _read_texts(request: ApiRequest) -> tuple[bytes, Sequence[bytes]]:
    """The body, and the text of each of its items. Raises ApiProblem (400, 413, 415, 422)."""
    raw, longest = await request.body(request.deps.limits.array_bytes), request.deps.limits.body_bytes
    return raw, await work_by_size(len(raw), lambda: read_items(raw, most=MAX_DEFINITIONS, longest=longest))


def _is_final(answer: object) -> bool:
    """Whether no item was refused for a temporary reason: a repetition of the request tries those again."""
    assert isinstance(answer, dict)
    problems = (item["problem"] for item in answer["items"])
    return not any(one and one["status"] == HTTPStatus.SERVICE_UNAVAILABLE for one in problems)


class _BulkJobs:
    """An array of definitions with the results by index.

    Nothing is created before the whole array is known to be valid JSON: else the whole request is refused.
    """

    def __init__(self, request: ApiRequest, raw: bytes, texts: Sequence[bytes], *, may_update: bool) -> None:
        self._request = request
        self._deps = request.deps
        self._raw = raw
        self._texts = texts
        self._owner = read_owner(request)
        self._may_update = may_update
        self._checks = DefinitionChecks(request.deps, request.creator)
        self._is_narrow = request.caller.is_narrow
        self._is_json = False
        self._hosts: dict[int, Hosts] = {}
        self._results: dict[int, Result] = {}
        self._fault: StoreError | None = None

    async def create(self) -> list[Result]:
        """Creates the jobs; the results are in order. Raises ApiProblem where nothing was created."""
        await self._create()
        if self._fault is not None:  # one request, however many of its items
            count_fault(self._deps.shown.store_faults, self._fault)
        await self._warn_of_names()
        return [self._results[index] for index in range(len(self._texts))]

    async def _warn_of_names(self) -> None:
        """Adds the warnings about host names, which are looked up once for the whole array."""
        named = [index for index in self._hosts if self._results[index]["status"] != "refused"]
        found = await warn_of_hosts(self._deps, [(self._texts[index], self._hosts[index]) for index in named])
        for index, warnings in zip(named, found, strict=True):
            self._results[index]["warnings"] += map(write_flaw, warnings)

    async def _create(self) -> None:
        """Checks the definitions and creates them, in groups that memory has room for."""
        await look_at_calendars(self._deps, self._raw)
        valid: list[tuple[int, PostedDefinition]] = []
        slices, weight = Slices(), 0
        for index, text in enumerate(self._texts):
            size = len(text)
            if slices.is_full(size):
                await slices.rest(size)
            checked = await self._check(index)
            if checked is None:
                continue
            valid.append((index, checked))
            if checked.hosts:
                self._hosts[index] = checked.hosts
            weight += checked.definition.weight or 0
            if weight > GROUP_BYTES:
                await self._insist_on_json()
                await self._create_valid(valid)
                valid, weight = [], 0
        await self._create_valid(valid)

    async def _create_valid(self, valid: Sequence[tuple[int, PostedDefinition]]) -> None:
        replies = await self._create_some([checked for _, checked in valid])
        for (index, checked), reply in zip(valid, replies, strict=True):
            self._results[index] = (
                await self._go_on(index, checked, reply)
                if _is_conflict(reply)
                else self._conclude(checked.job_id, reply, checked.warnings)
            )

    async def _create_some(self, some: Sequence[PostedDefinition]) -> Sequence[Reply | StoreError]:
        """As `_create_noted`; where it may update, one that names another `active` is another definition."""
        replies = await self._create_noted(some)
        if not self._may_update:
            return replies
        return [await self._compare_active(*pair) for pair in zip(some, replies, strict=True)]

    async def _compare_active(
        self, checked: PostedDefinition, reply: Reply | StoreError
    ) -> Reply | StoreError:
        """`reply`, which compares definitions without `active`, or DIFFERS."""
        if not isinstance(reply, Unchanged) or checked.active is None:
            return reply
        try:
            entry = await self._deps.catalogue.get(checked.definition.program.key)
            text = None if entry is None else await self._deps.store.definition(entry.uid, entry.revision)
        except StoreError as error:
            return error
        return reply if checked.active is read_active(text or b"{}") else DIFFERS

    async def _create_noted(self, some: Sequence[PostedDefinition]) -> Sequence[Reply | StoreError]:
        """Creates these jobs, all of them with one line in the audit: that of an array costs little."""
        if not some:
            return ()
        note = AuditNote(ActKind.JOBS, items=[checked.definition.program.job_id for checked in some])

        async def create() -> Sequence[Reply | StoreError]:
            replies = await self._deps.jobs.create_all([checked.definition for checked in some], self._owner)
            pairs = zip(note.items, replies, strict=True)
            # Those that were created, or may have been.
            note.items = [job_id for job_id, reply in pairs if isinstance(reply, Taken | StoreUncertain)]
            note.changed = bool(note.items)
            return replies

        try:
            return await audited(self._request, note, create)
        except StoreError as error:  # the audit's: each of them is refused, and those before them stay
            return [error] * len(some)

    async def _check(self, index: int) -> PostedDefinition | None:
        """None: it is refused, and its result says why."""
        text = self._texts[index]
        try:
            checked = self._checks.find(text) or await self._check_in_full(text)
            if self._is_narrow:
                await self._insist_on_json()
                await check_reach(self._request, checked.definition.program)
            return checked
        except ApiProblem as problem:
            if not self._is_json:
                raise
            self._results[index] = _refuse(id_of(text), problem)
        except StoreError as error:
            self._results[index] = self._conclude(id_of(text) or "", error)
        return None

    async def _check_in_full(self, text: bytes) -> PostedDefinition:
        await self._insist_on_json()
        return await self._checks.check(text)

    async def _insist_on_json(self) -> None:
        if not self._is_json:
            await work_by_size(len(self._raw), lambda: deque(read_each(self._raw, self._texts), maxlen=0))
            self._is_json = True

    async def _go_on(self, index: int, checked: PostedDefinition, reply: Reply | StoreError) -> Result:
        """The job exists with another definition: perhaps only of another creator; else it is replaced."""
        try:
            kept = await keep_creator(
                self._request, checked.definition.program.key, self._texts[index], checked
            )
        except StoreError as error:
            return self._conclude(checked.job_id, error)
        if kept is not checked:
            (reply,) = await self._create_some([kept])
        if self._may_update and _is_conflict(reply):
            return await self._update(kept)
        return self._conclude(checked.job_id, reply, kept.warnings)

    async def _update(self, checked: PostedDefinition) -> Result:
        event = Updated(revision=0, active=checked.active, owner=self._owner or None)
        try:
            await run_command(
                self._request, checked.definition.program.key, Command(event, checked.definition)
            )
        except ApiProblem as problem:
            return _refuse(checked.job_id, problem)
        except StoreError as error:
            return self._conclude(checked.job_id, error)
        return _accept(checked.job_id, "updated", checked.warnings)

    def _conclude(self, job_id: str, reply: Reply | StoreError, warnings: Sequence[FoundFlaw] = ()) -> Result:
        """The result of one item; a fault of the store is kept for `create`, rather than that it stops."""
        match reply:
            case Taken():
                return _accept(job_id, "created", warnings)
            case Refusal():
                return _refuse(job_id, refused(reply))
            case StoreError():
                if self._fault is None or isinstance(self._fault, StoreStopping):
                    self._fault = reply
                return _refuse(job_id, store_problem(reply))
            case _:
                return _accept(job_id, "unchanged", warnings)


class _ComparedJobs(_BulkJobs):
    """As `_BulkJobs`, but nothing is done: each job is read, and the result is what it would answer.

    A job is changed by a definition that is another one, and by one that names another `active`.
    """

    async def create(self) -> list[Result]:
        """As `_BulkJobs.create`; each result has the `revision` that was read, None without a job."""
        self._revisions: dict[str, int] = {}
        return [one | {"revision": self._revisions.get(one["jobId"])} for one in await super().create()]

    async def _create_noted(self, some: Sequence[PostedDefinition]) -> Sequence[Reply | StoreError]:
        return [await self._foresee(one) for one in some]

    async def _foresee(self, checked: PostedDefinition) -> Reply | StoreError:
        program, sender = checked.definition.program, self._owner
        try:
            entry = await self._deps.catalogue.get(program.key)
            job = None if entry is None else await self._deps.jobs.read(entry.job_id)
            if entry is None or entry.state is JobState.DESTROYED or job is None or job.document is None:
                return refuse_ownerless(program, sender) or Taken()
            if entry.system:
                return OWN_JOB
            head = job.document.head
            revision = self._revisions[checked.job_id] = head.revision
            is_same = (
                job.programs[revision].fingerprint == program.fingerprint
                and refuse_other_owner(program, head.owner, sender) is None
            )
        except StoreError as error:
            return error
        return Unchanged() if is_same else refuse_ownerless(program, sender or head.owner) or DIFFERS

    async def _go_on(self, index: int, checked: PostedDefinition, reply: Reply | StoreError) -> Result:
        """As an update: with the creator of the job, and the options of the service to which it belongs."""
        if reply is OWN_JOB:
            return _refuse(checked.job_id, refused(OWN_JOB))
        key, text = checked.definition.program.key, self._texts[index]
        try:
            by = await find_sender(self._request, key)
            checked = await check_posted(self._deps, text, None, by)
            checked = await keep_creator(self._request, key, text, checked, by)
        except StoreError as error:
            return self._conclude(checked.job_id, error)
        (reply,) = await self._create_some([checked])
        if _is_conflict(reply):
            return _accept(checked.job_id, "updated", checked.warnings)
        return self._conclude(checked.job_id, reply, checked.warnings)


def _is_conflict(reply: Reply | StoreError) -> bool:
    """Whether the job exists with another definition."""
    return isinstance(reply, Refusal) and reply.code is RefusalCode.CONFLICT


def _accept(job_id: str, status: str, warnings: Sequence[FoundFlaw]) -> Result:
    written = [write_flaw(warning) for warning in warnings] if warnings else []
    return {"jobId": job_id, "status": status, "problem": None, "warnings": written}


def _refuse(job_id: str | None, problem: ApiProblem) -> Result:
    return {"jobId": job_id, "status": "refused", "problem": problem.body(), "warnings": []}
