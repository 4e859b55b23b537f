"""Firings over a tenant's executions a minute wait, and none is lost or doubled (SPEC sections 3 and 14)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.execution import FiringOutcome
from scheduler_service.domain.moments import MINUTE, SECOND, Now
from scheduler_service.domain.records import ExecutionRecord, FiringRecord
from scheduler_service.domain.replies import Refusal, RefusalCode, Started, StartedMany
from scheduler_service.domain.turn_events import Backfilled, Created
from scheduler_service.ports.delivery import Command
from scheduler_service.services.tenant_execution_rates import ExecutionRates
from tests.conformance.hosts.houses import HOUSES, AnyHouse
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio
MOST = 4


class LateClock:
    """The clock of a house, which is there only when its parts are."""

    house: AnyHouse

    def now(self) -> Now:
        return self.house.clock.now()


@pytest.fixture(params=HOUSES)
async def limited(request: pytest.FixtureRequest) -> AsyncIterator[AnyHouse]:
    """A started host whose tenant may begin four executions a minute."""
    clock: Any = LateClock()
    rates = ExecutionRates(limits={}, usual=MOST, clock=clock, tell=lambda *_: None)
    house = HOUSES[request.param](rates=rates)
    clock.house = house
    await house.start()
    yield house
    await house.close()


def begun(house: AnyHouse) -> list[str]:
    """The jobs whose executions have succeeded."""
    last: dict[tuple[str, int], State] = {}
    for job_id in JOBS:
        for batch in house.batches(job_id):
            for record in batch.records:
                if isinstance(record, ExecutionRecord):
                    last[job_id, record.execute_number] = record.state
    return [job_id for (job_id, _), state in last.items() if state is State.SUCCEEDED]


JOBS = [f"job-{number:02d}" for number in range(10)]


async def test_firings_of_one_moment_are_let_go_as_the_limit_allows(limited: AnyHouse) -> None:
    """Over a kill in between; each fires once, and is late in the ledger."""
    for job_id in JOBS:
        await limited.create(job_id, timer={"dueTime": "30s", "period": "0s"}, qos=1)
    await limited.advance(40 * SECOND)
    assert len(begun(limited)) == MOST
    await limited.crash()
    await limited.recover()
    await limited.advance(MINUTE)
    assert MOST < len(begun(limited)) <= 2 * MOST
    await limited.advance(2 * MINUTE)
    assert sorted(begun(limited)) == JOBS
    firings = [record for record in limited.records() if isinstance(record, FiringRecord)]
    started = [one for one in firings if one.outcome is not FiringOutcome.SKIPPED]
    assert len({(one.execute_number, one.planned_at) for one in started}) == 1
    assert {one.outcome for one in started} == {FiringOutcome.FIRED, FiringOutcome.LATE}


async def test_a_trigger_over_the_limit_is_refused_with_its_moment(limited: AnyHouse) -> None:
    """And accepted then, not sooner."""
    await limited.create()
    for _ in range(MOST):
        assert isinstance(await limited.trigger(), Started)
        await limited.settle()
    refused = await limited.trigger()
    assert isinstance(refused, Refusal)
    assert refused.code is RefusalCode.LIMIT
    assert refused.limit is not None
    assert refused.limit.retry_after == MINUTE
    await limited.advance(MINUTE - 1)
    assert isinstance(await limited.trigger(), Refusal)
    await limited.advance(1)
    assert isinstance(await limited.trigger(), Started)


@pytest.mark.parametrize("limited", ["embedded"], indirect=True)  # it keeps the program that it is given
async def test_what_the_system_begins_is_none_of_the_tenant_s(limited: AnyHouse) -> None:
    """Its own jobs are neither held back nor counted."""
    made = describe(jobId="own")
    own = replace(made, program=replace(made.program, system=True))
    await limited.host("own", Command(Created("", b""), definition=own))
    await limited.create()
    for job_id, number in (("own", 2 * MOST), ("job", MOST)):
        for _ in range(number):
            assert isinstance(await limited.trigger(job_id), Started)
            await limited.settle()
    assert isinstance(await limited.trigger(), Refusal)
    assert isinstance(await limited.trigger("own"), Started)


async def test_the_rest_of_a_backfill_outlives_a_crash_and_begins_as_the_limit_allows(
    limited: AnyHouse,
) -> None:
    """Four begin, and the others in each minute that follows; each moment once."""
    await limited.create(JOBS[0], timer={"dueTime": "0s", "period": "1h"}, qos=1)
    await limited.settle()
    past = tuple(limited.clock.now().wall - number * MINUTE for number in range(9, 0, -1))
    assert isinstance(await limited.deliver(Backfilled(past), JOBS[0]), StartedMany)
    await limited.advance(SECOND)
    assert len(begun(limited)) <= MOST
    await limited.crash()
    await limited.recover()
    await limited.advance(4 * MINUTE)
    assert len(begun(limited)) == 1 + len(past)
