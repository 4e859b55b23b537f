"""Several shards asked at once."""

import asyncio

import pytest

from scheduler_service.hosts.processes.fan_out import one_of
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain

pytestmark = pytest.mark.anyio


async def _hang() -> str:
    return await asyncio.get_running_loop().create_future()


async def _say(text: str) -> str:
    return text


async def _fail(error: Exception) -> str:
    raise error


async def test_who_knows_is_not_kept_waiting_by_who_hangs() -> None:
    """One shard that does not answer must not stop what another one has answered."""
    assert await asyncio.wait_for(one_of([_hang(), _say(""), _say("known")]), 5) == "known"


async def test_an_error_counts_where_nobody_knows() -> None:
    """It might have been there: the worst of the errors is raised; without any it is unknown."""
    assert await one_of([_fail(StoreUnavailable("away")), _say("known")]) == "known"
    assert await one_of([_say(""), _say("")]) == ""
    with pytest.raises(StoreUncertain):
        await one_of([_say(""), _fail(StoreUnavailable("away")), _fail(StoreUncertain("perhaps"))])
