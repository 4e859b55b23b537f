"""The review after a change of settings: each job is planned again, whatever another one meets."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from scheduler_service.app.core_settings import DefinitionCompiler
from scheduler_service.domain.errors import PunctualError
from scheduler_service.engine.program import Surroundings
from scheduler_service.ports.catalogue import Catalogue, JobPage, JobQuery
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StateUnreadable, StoreUnavailable
from scheduler_service.settings import Settings
from scheduler_service.system_jobs.startup_review import INCOMPLETE, Review, basis_of
from scheduler_service.system_jobs.system_job_definitions import (
    CHECK_TIMERS,
    FOLLOWS,
    NAMES,
    install,
    patiently,
)
from tests.unit.hosts.house import House
from tests.unit.persistence.samples import entry
from tests.wire.service import definition

TEXT = msgspec.json.encode({"jobId": "a", **definition(timer={"period": "1h"})})


class Jobs:
    """A store of jobs in memory, some of which cannot be read; `told` are the commands that were taken."""

    def __init__(self, names: Sequence[str], broken: dict[str, Exception]) -> None:
        self._entries = {name: entry(name, kind="timing", latest=b"") for name in names}
        self._broken = broken
        self.told: list[tuple[str, Command]] = []

    async def list(self, query: JobQuery) -> JobPage:
        """One job a page, in order."""
        names = [name for name in sorted(self._entries) if query.cursor is None or name > query.cursor]
        rest = names[0] if len(names) > 1 else None
        return JobPage(tuple(self._entries[name] for name in names[:1]), rest)

    async def definitions(self, job_ids: Sequence[str]) -> dict[str, bytes]:
        """The stored texts."""
        return dict.fromkeys(job_ids, TEXT)

    async def deliver(self, job_id: str, command: Command) -> None:
        """Takes a command. Raises what the job is broken by."""
        if job_id in self._broken:
            raise self._broken[job_id]
        self.told.append((job_id, command))


async def look_at(jobs: Jobs) -> tuple[list[str], str | None, list[str]]:
    """The jobs that were planned again, what is noted at the end (None: nothing), and the log's events."""
    said: list[str] = []
    settings = Settings.model_validate({})
    review = Review(
        settings=settings,
        basis=lambda: "now",
        catalogue=cast(Catalogue, jobs),
        deliver=cast(Any, jobs.deliver),
        compile_text=DefinitionCompiler(settings=settings, surroundings=Surroundings()).stored,
        log=lambda event, /, **keys: said.append(f"{event} {keys['error']}"),
    )
    await review.start("before")
    await review.stop()
    planned = [name for name, _ in jobs.told if name != CHECK_TIMERS]
    noted = [command.definition for name, command in jobs.told if name == CHECK_TIMERS]
    label = None
    if noted and noted[0] is not None:
        label = msgspec.json.decode(noted[0].text)["labels"][FOLLOWS]
    return planned, label, said


async def test_all_are_planned_again_and_the_basis_is_noted() -> None:
    """The next start under the same settings looks at none."""
    assert await look_at(Jobs("abc", {})) == (["a", "b", "c"], "now", [])


async def test_a_damaged_job_keeps_out_no_other() -> None:
    """The others are planned again now, and the next start looks at all once more."""
    planned, label, said = await look_at(Jobs("abc", {"a": StateUnreadable("a is damaged")}))
    assert (planned, label) == (["b", "c"], "now" + INCOMPLETE)
    assert said == ["review_not_completed a is damaged"]


async def test_a_defect_ends_it_unnoted() -> None:
    """What is no fault of the store is told, and the next start repeats the review."""
    planned, label, said = await look_at(Jobs("ab", {"a": PunctualError("a defect")}))
    assert (planned, label) == ([], None)
    assert said == ["review_not_completed PunctualError: a defect"]


def test_the_variables_of_every_tenant_are_part_of_the_basis() -> None:
    """Their names, and of what kind a target in one is: a value alone is not (a token may be one)."""

    def basis(**environments: dict[str, str]) -> str:
        settings = Settings.model_validate({"env": environments})
        return basis_of(Surroundings(environment={"OWN": "1"}), settings, ())

    known = basis(zed={"BASE": "https://a.test"})
    assert basis(zed={"BASE": "https://b.test"}) == known
    others = {basis(), basis(zed={"BASE": "queue://a"}), basis(acme={"BASE": "https://a.test"})}
    assert len({known, *others}) == 4


class Busy:
    """The way to the jobs of a house; the first `failures` events do not get through."""

    def __init__(self, house: House, failures: int) -> None:
        self._house = house
        self._left = failures

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        self._left -= 1
        if self._left >= 0:
            raise StoreUnavailable("the sidecar is overloaded")
        return await self._house.host(*arguments, **options)


async def begin(failures: int) -> tuple[House, list[str], asyncio.Task[None]]:
    """An installation under way, and what it logs."""
    house, told = await House().start(), list[str]()
    settings = Settings()
    compiler = DefinitionCompiler(settings=settings, surroundings=Surroundings())
    busy = Busy(house, failures)
    work = patiently(
        lambda: install(busy, compiler.stored, settings),
        clock=house.clock,
        log=lambda event, /, **keys: told.append(event),
    )
    return house, told, asyncio.create_task(work)


async def test_a_start_waits_while_the_store_is_busy() -> None:
    """A node does not end because its sidecar was slow for a moment; it says that it waits."""
    house, told, work = await begin(failures=3)
    await house.advance(4_000)
    await work
    assert told == ["start_delayed"] * 3
    assert set(NAMES) <= set(house.disk.jobs)


async def test_a_start_gives_up_after_a_minute() -> None:
    """What stays away is an error in words."""
    house, _, work = await begin(failures=1_000)
    await house.advance(62_000)
    with pytest.raises(StoreUnavailable, match="overloaded"):
        await work
