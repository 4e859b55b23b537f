"""The system jobs come into being however busy the store is (SPEC section 11)."""

import asyncio
from typing import Any

import pytest

from scheduler_service.app.core_settings import DefinitionCompiler
from scheduler_service.engine.program import Surroundings
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.settings import Settings
from scheduler_service.system_jobs.system_job_definitions import NAMES, install, patiently
from tests.unit.hosts.house import House


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
