"""Many definitions at once: each is created, updated or refused on its own (SPEC section 10)."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from scheduler_service.api.bodies import read_each, read_items, read_json
from scheduler_service.api.definitions import Checks, Posted, Unchecked, id_of, take_unchecked
from scheduler_service.api.dependencies import ApiDependencies, Offload
from scheduler_service.api.job_commands import run_command, run_once
from scheduler_service.api.problems import (
    ApiProblem,
    Flaw,
    invalid,
    refused,
    unavailable,
    uncertain,
    write_flaw,
)
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.events import Updated
from scheduler_service.domain.replies import Refusal, RefusalCode, Reply, Taken
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError, StoreUncertain

MOST = 1_000
AT_ONCE = 50
"""So many definitions are checked before other requests are served."""

Result = dict[str, Any]


async def create_all(call: ApiRequest) -> Response:
    """`POST /jobs`: each definition on its own; one result per item, in order."""
    raw = await call.body(call.parts.array_bytes)
    texts = read_items(raw)
    if len(texts) > MOST:
        raise invalid("", "range", f"{len(texts)} definitions are too many; send at most {MOST} at once")
    remembered = call.remembered("jobs", raw)
    may_update = call.query["onExisting"] == "update"

    async def create() -> dict[str, list[Result]]:
        return {"items": await _BulkJobs(call.parts, raw, texts, may_update=may_update).create()}

    return succeed(await run_once(call.parts, remembered, create, is_final=_is_final))


def _is_final(answer: object) -> bool:
    """Whether nothing was refused for a reason that passes: who repeats that wants it tried again."""
    assert isinstance(answer, dict)
    problems = (item["problem"] for item in answer["items"])
    return not any(one and one["status"] == HTTPStatus.SERVICE_UNAVAILABLE for one in problems)


class _BulkJobs:
    """An array of definitions on its way; what becomes of each stands at its place.

    Nothing is created before all of it is known to be JSON: what is none refuses the whole request.
    """

    def __init__(
        self, parts: ApiDependencies, raw: bytes, texts: Sequence[bytes], *, may_update: bool
    ) -> None:
        self._parts = parts
        self._raw = raw
        self._texts = texts
        self._may_update = may_update
        self._checks = Checks(parts)
        self._is_json = False
        self._results: dict[int, Result] = {}

    async def create(self) -> list[Result]:
        """Creates them; the results are in order. Raises ApiProblem where nothing was created."""
        places = range(len(self._texts))
        if self._parts.offers is None:
            await self._create(places)
        else:
            await self._share(self._parts.offers)
        return [self._results[place] for place in places]

    async def _share(self, offers: Offload) -> None:
        """What lives in other processes is offered to them first: they work while this one does its own."""
        values = read_each(self._raw, self._texts)
        found = [
            take_unchecked(self._parts, text, value) for text, value in zip(self._texts, values, strict=True)
        ]
        self._is_json = True
        places = _find_others(found, offers)
        rest = sorted(set(range(len(found))).difference(places.values()))
        texts = {job_id: found[place].text for job_id, place in places.items()}
        await asyncio.gather(self._offer(offers, texts, places), self._create(rest))

    async def _offer(self, offers: Offload, texts: Mapping[str, bytes], places: Mapping[str, int]) -> None:
        for job_id, reply in (await offers.offer(texts)).items():
            # An update needs the definition itself, so it goes the long way.
            if not self._is_update(reply):
                self._results[places[job_id]] = _conclude(job_id, reply)
        await self._create([place for place in places.values() if place not in self._results])

    async def _create(self, places: Sequence[int]) -> None:
        """Checks the definitions at `places`, all of them before any is created."""
        wanted: list[tuple[int, Posted]] = []
        for count, place in enumerate(places):
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)
            posted = self._check(place)
            if posted is not None:
                wanted.append((place, posted))
        replies = await self._parts.create_all([posted.definition for _, posted in wanted])
        for (place, posted), reply in zip(wanted, replies, strict=True):
            self._results[place] = (
                await self._update(posted)
                if self._is_update(reply)
                else _conclude(posted.job_id, reply, posted.warnings)
            )

    def _check(self, place: int) -> Posted | None:
        """None: it is refused, and its result says why."""
        text = self._texts[place]
        try:
            return self._checks.recognize(text) or self._check_unknown(text)
        except ApiProblem as problem:
            if not self._is_json:
                raise
            self._results[place] = _refuse(id_of(msgspec.json.decode(text)), problem)
            return None

    def _check_unknown(self, text: bytes) -> Posted:
        if not self._is_json:
            read_json(self._raw)
            self._is_json = True
        return self._checks.check(text)

    def _is_update(self, reply: Reply | StoreError) -> bool:
        """Whether the job is there with another definition, which is to be replaced."""
        return self._may_update and isinstance(reply, Refusal) and reply.code is RefusalCode.CONFLICT

    async def _update(self, posted: Posted) -> Result:
        event = Updated(revision=0, active=posted.active)
        try:
            await run_command(self._parts, posted.job_id, Command(event, posted.definition))
        except ApiProblem as problem:
            return _refuse(posted.job_id, problem)
        except StoreError as error:
            return _conclude(posted.job_id, error)
        return _accept(posted.job_id, "updated", posted.warnings)


def _find_others(found: Sequence[Unchecked], offers: Offload) -> dict[str, int]:
    """The jobs of other processes with their places; not those that stand here twice, whose order counts."""
    times = Counter(one.job_id for one in found)
    return {
        one.job_id: place
        for place, one in enumerate(found)
        if one.job_id is not None and times[one.job_id] == 1 and offers.is_elsewhere(one.job_id)
    }


def _conclude(job_id: str, reply: Reply | StoreError, warnings: Sequence[Flaw] = ()) -> Result:
    """What became of a creation."""
    match reply:
        case Taken():
            return _accept(job_id, "created", warnings)
        case Refusal():
            return _refuse(job_id, refused(reply))
        case StoreUncertain():
            return _refuse(job_id, uncertain(str(reply)))
        case StoreError():
            return _refuse(job_id, unavailable(str(reply)))
        case _:
            return _accept(job_id, "unchanged", warnings)


def _accept(job_id: str, status: str, warnings: Sequence[Flaw]) -> Result:
    told = [write_flaw(warning) for warning in warnings] if warnings else []
    return {"jobId": job_id, "status": status, "problem": None, "warnings": told}


def _refuse(job_id: str | None, problem: ApiProblem) -> Result:
    return {"jobId": job_id, "status": "refused", "problem": problem.body(), "warnings": []}
