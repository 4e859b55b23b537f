"""Contexts of qos 1 in a store of their own: what becomes of jobs when it loses them or is away."""

from collections.abc import AsyncIterator

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from tests.conformance.hosts.houses import ApartHouse

pytestmark = pytest.mark.anyio
URL, HOOK = "http://target.test/run", "http://caller.test/"


@pytest.fixture
async def house() -> AsyncIterator[ApartHouse]:
    opened = ApartHouse()
    await opened.start()
    yield opened
    await opened.close()


async def test_what_the_store_has_lost_ends_by_name_and_the_job_goes_on(house: ApartHouse) -> None:
    """The execution is `lost` and told so; the next one runs, under the next number."""
    await house.create(qos=1, notification=[{"url": HOOK, "stateEquals": ["finalFailed"]}])
    house.sender.hold(URL)
    await house.trigger()
    await house.settle()
    assert list(house.contexts.versions) == ["job"]
    house.contexts.lose()
    await house.crash()
    await house.recover()
    await house.settle()
    assert house.executions() == {1: State.TERMINATED}
    assert {keys["jobId"] for event, keys in house.log if event == "contexts_lost"} == {"job"}
    assert house.sender.urls() == [HOOK]
    await house.trigger()
    await house.settle()
    assert (house.sender.urls(), house.executions()[2]) == ([HOOK, URL], State.SUCCEEDED)
