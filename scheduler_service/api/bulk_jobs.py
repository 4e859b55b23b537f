"""Many definitions at once: each is created, updated or refused on its own (SPEC section 10)."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from scheduler_service.api.bodies import read_each, read_items, read_json
from scheduler_service.api.definitions import (
    CheckedDefinition,
    DefinitionChecks,
    UncheckedDefinition,
    id_of,
    read_unchecked,
)
from scheduler_service.api.dependencies import Offload
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import (
    ApiProblem,
    Flaw,
    invalid,
    refused,
    store_problem,
    succeed,
    write_flaw,
)
from scheduler_service.domain.events import Updated
from scheduler_service.domain.replies import Refusal, RefusalCode, Reply, Taken
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError

MAX_DEFINITIONS = 1_000
SLICE = 50
"""The number of definitions that are checked before other requests run."""

Result = dict[str, Any]


async def create_jobs(request: ApiRequest) -> Response:
    """`POST /jobs`: each definition on its own; one result per item, in order."""
    raw = await request.body(request.deps.array_bytes)
    texts = read_items(raw)
    if len(texts) > MAX_DEFINITIONS:
        message = f"{len(texts)} definitions are too many; send at most {MAX_DEFINITIONS} at once"
        raise invalid("", "range", message)

    async def work() -> dict[str, list[Result]]:
        return {"items": await _BulkJobs(request, raw, texts).create()}

    return succeed(await request.run_once("jobs", raw, work, is_final=_is_final))


def _is_final(answer: object) -> bool:
    """Whether no item was refused for a temporary reason: a repetition of the request tries those again."""
    assert isinstance(answer, dict)
    problems = (item["problem"] for item in answer["items"])
    return not any(one and one["status"] == HTTPStatus.SERVICE_UNAVAILABLE for one in problems)


class _BulkJobs:
    """An array of definitions with the results by index.

    Nothing is created before the whole array is known to be valid JSON: else the whole request is refused.
    """

    def __init__(self, request: ApiRequest, raw: bytes, texts: Sequence[bytes]) -> None:
        self._request = request
        self._deps = request.deps
        self._raw = raw
        self._texts = texts
        self._may_update = request.query["onExisting"] == "update"
        self._checks = DefinitionChecks(request.deps)
        self._is_json = False
        self._results: dict[int, Result] = {}

    async def create(self) -> list[Result]:
        """Creates the jobs; the results are in order. Raises ApiProblem where nothing was created."""
        indexes = range(len(self._texts))
        if self._deps.offload is None:
            await self._create(indexes)
        else:
            await self._share(self._deps.offload)
        return [self._results[index] for index in indexes]

    async def _share(self, offload: Offload) -> None:
        """Offers other processes their jobs, and creates its own at the same time."""
        values = read_each(self._raw, self._texts)
        found = [
            read_unchecked(self._deps, text, value) for text, value in zip(self._texts, values, strict=True)
        ]
        self._is_json = True
        indexes = _find_others(found, offload)
        rest = sorted(set(range(len(found))).difference(indexes.values()))
        texts = {job_id: found[index].text for job_id, index in indexes.items()}
        await asyncio.gather(self._offer(offload, texts, indexes), self._create(rest))

    async def _offer(self, offload: Offload, texts: Mapping[str, bytes], indexes: Mapping[str, int]) -> None:
        for job_id, reply in (await offload.offer(texts)).items():
            # An update needs the compiled definition, which `_create` makes.
            if not self._is_update(reply):
                self._results[indexes[job_id]] = _conclude(job_id, reply)
        await self._create([index for index in indexes.values() if index not in self._results])

    async def _create(self, indexes: Sequence[int]) -> None:
        """Checks the definitions at `indexes`, all of them before any is created."""
        valid: list[tuple[int, CheckedDefinition]] = []
        for count, index in enumerate(indexes):
            if count % SLICE == 0:
                await asyncio.sleep(0)
            checked = self._check(index)
            if checked is not None:
                valid.append((index, checked))
        replies = await self._deps.create_all([checked.definition for _, checked in valid])
        for (index, checked), reply in zip(valid, replies, strict=True):
            self._results[index] = (
                await self._update(checked)
                if self._is_update(reply)
                else _conclude(checked.job_id, reply, checked.warnings)
            )

    def _check(self, index: int) -> CheckedDefinition | None:
        """None: it is refused, and its result says why."""
        text = self._texts[index]
        try:
            return self._checks.find(text) or self._check_in_full(text)
        except ApiProblem as problem:
            if not self._is_json:
                raise
            self._results[index] = _refuse(id_of(msgspec.json.decode(text)), problem)
            return None

    def _check_in_full(self, text: bytes) -> CheckedDefinition:
        if not self._is_json:
            read_json(self._raw)
            self._is_json = True
        return self._checks.check(text)

    def _is_update(self, reply: Reply | StoreError) -> bool:
        """Whether the job exists with another definition, which the request replaces."""
        return self._may_update and isinstance(reply, Refusal) and reply.code is RefusalCode.CONFLICT

    async def _update(self, checked: CheckedDefinition) -> Result:
        event = Updated(revision=0, active=checked.active)
        try:
            await run_command(self._request, checked.job_id, Command(event, checked.definition))
        except ApiProblem as problem:
            return _refuse(checked.job_id, problem)
        except StoreError as error:
            return _conclude(checked.job_id, error)
        return _accept(checked.job_id, "updated", checked.warnings)


def _find_others(found: Sequence[UncheckedDefinition], offload: Offload) -> dict[str, int]:
    """Jobs of other processes with their indexes; without ids that occur twice, whose order counts."""
    times = Counter(one.job_id for one in found)
    return {
        one.job_id: index
        for index, one in enumerate(found)
        if one.job_id is not None and times[one.job_id] == 1 and offload.is_elsewhere(one.job_id)
    }


def _conclude(job_id: str, reply: Reply | StoreError, warnings: Sequence[Flaw] = ()) -> Result:
    """The result of a creation."""
    match reply:
        case Taken():
            return _accept(job_id, "created", warnings)
        case Refusal():
            return _refuse(job_id, refused(reply))
        case StoreError():
            return _refuse(job_id, store_problem(reply))
        case _:
            return _accept(job_id, "unchanged", warnings)


def _accept(job_id: str, status: str, warnings: Sequence[Flaw]) -> Result:
    written = [write_flaw(warning) for warning in warnings] if warnings else []
    return {"jobId": job_id, "status": status, "problem": None, "warnings": written}


def _refuse(job_id: str | None, problem: ApiProblem) -> Result:
    return {"jobId": job_id, "status": "refused", "problem": problem.body(), "warnings": []}
