"""What an operation does with one job or one execution: the command that its own route would give."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from client_sdk.models import BulkExecutions, BulkJobs, ReplayRequest
from scheduler_service.api.executions import cancel_one, replay_one
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.jobs import edit_definition, find_job
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ApiProblem, Flaw, invalid_all, no_job, store_problem
from scheduler_service.domain.events import Activated, Destroyed, Event, Paused, Triggered
from scheduler_service.domain.execution import write_execution_id
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.replies import Started as ExecutionStarted
from scheduler_service.engine.posting import find_too_many
from scheduler_service.hosts.operations.operation import Outcome, Started, read_piece
from scheduler_service.language.values import as_json
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StateUnreadable, StoreError
from scheduler_service.ports.state import Remembered


def _relabel(posted: BulkJobs, before: Any) -> Any:
    """The labels of the job with those of the request; None removes one. Raises ApiProblem (422)."""
    labels = {**(before or {}), **(posted.labels or {})}
    after = {name: value for name, value in labels.items() if value is not None}
    if too_many := tuple(find_too_many({"labels": after})):
        raise invalid_all(too_many)
    return after or (before and after)


EDITS: Mapping[str, tuple[str, Callable[[BulkJobs, Any], object]]] = {
    "label": ("labels", _relabel),
    "disable": ("disabled", lambda _, before: True),
    "enable": ("disabled", lambda _, before: before and False),
}
"""The actions that change a member of the definition: its name, and the new value."""


class JobWork:
    """The command for each of many jobs, in the life in which it was chosen; under `key` it is given once."""

    def __init__(self, request: ApiRequest, posted: BulkJobs, key: str) -> None:
        self._request = request
        self._posted = posted
        self._key = key
        self._params = as_json(posted.params or {})

    async def do(self, piece: str) -> Outcome:
        """Does it for one job."""
        return await _outcome(self._do(*read_piece(piece)))

    async def _do(self, job_id: str, life: str) -> Started | None:
        try:
            return await self._do_to(job_id, life)
        except ApiProblem as problem:
            # Gone is what `destroy` wants: it was destroyed meanwhile, maybe by an earlier try of this one.
            if self._posted.action == "destroy" and life and problem.status is HTTPStatus.NOT_FOUND:
                return None
            raise

    async def _do_to(self, job_id: str, life: str) -> Started | None:
        posted, job_key = self._posted, write_job_key(self._request.caller.tenant, job_id)
        if (await find_job(self._request, job_key)).uid != life:
            raise no_job(job_key)
        remembered = remember(self._request, f"jobs/{job_id}/{posted.action}", self._key, self._params)
        if posted.action in EDITS:
            name, change = EDITS[posted.action]
            await edit_definition(self._request, job_key, name, partial(change, posted), remembered)
            return None
        # The answer of a destruction would end with the life that it ends.
        kept = None if posted.action == "destroy" else remembered
        command = Command(self._event(), remembered=kept)
        return show_started(job_id, await run_command(self._request, job_key, command))

    def _event(self) -> Event:
        posted = self._posted
        events: dict[str, Callable[[], Event]] = {
            "pause": lambda: Paused(drain=posted.drain),
            "resume": lambda: Activated(misfire=posted.misfire),
            "destroy": Destroyed,
            "trigger": lambda: Triggered(params=self._params, trace=self._request.trace),
        }
        return events[posted.action]()


class ExecutionWork:
    """The command for each of many executions; `behind` as in `executions.find_execution`."""

    def __init__(self, request: ApiRequest, posted: BulkExecutions, key: str, behind: Sequence[Flaw]) -> None:
        self._request = request
        self._posted = posted
        self._key = key
        self._behind = behind
        self._replay = ReplayRequest(from_step=posted.from_step, params=posted.params)

    async def do(self, execution_id: str) -> Outcome:
        """Does it for one execution."""
        return await _outcome(self._do(execution_id))

    async def _do(self, execution_id: str) -> Started | None:
        request, posted = self._request, self._posted
        if posted.action == "cancel":
            subject, body = f"executions/{execution_id}/cancel", (posted.reason or "").encode()
            remembered = remember(request, subject, self._key, body)
            await cancel_one(request, execution_id, posted.reason, remembered)
            return None
        if self._behind:
            self._behind = await request.catch_up()
        subject, body = f"executions/{execution_id}/replay", as_json(self._replay.model_dump())
        remembered = remember(request, subject, self._key, body)
        return show_started(*await replay_one(request, execution_id, self._replay, remembered, self._behind))


async def _outcome(done: Awaitable[Started | None]) -> Outcome:
    try:
        return Outcome(started=await done)
    except ApiProblem as problem:
        return Outcome(problem=problem.body())
    except StoreError as error:
        is_passing = not isinstance(error, StateUnreadable)
        return Outcome(problem=store_problem(error).body(), is_passing=is_passing)


def remember(request: ApiRequest, subject: str, key: str, body: bytes) -> Remembered:
    """What makes a command have its effect once under `key`."""
    return Remembered(subject, key, sha256(body).digest(), b"", request.deps.clock.now().wall)


def show_started(job_id: str, reply: Reply) -> Started | None:
    """The execution that a command started, if it started one."""
    if not isinstance(reply, ExecutionStarted):
        return None
    return Started(job_id, write_execution_id(reply.uid, reply.execute_number))
