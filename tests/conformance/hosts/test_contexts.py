"""Contexts of qos 1 in a store of their own: what becomes of jobs when it loses them or is away."""

from collections.abc import AsyncIterator

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.ports.errors import StoreUnavailable
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


async def test_while_the_store_is_away_nothing_of_qos_1_begins_and_nothing_is_lost(house: ApartHouse) -> None:
    """A trigger of qos 1 is refused, one of qos 0 runs; a step in flight goes on once the store is back."""
    await house.create(qos=1, request=[{"url": URL}, {"url": HOOK}])
    await house.create("light")
    await house.create("other", qos=1)
    house.sender.hold(HOOK)
    await house.trigger()
    await house.settle()
    assert house.sender.urls() == [URL, HOOK]
    house.contexts.is_away = True
    with pytest.raises(StoreUnavailable):
        await house.trigger("other")
    await house.trigger("light")
    await house.settle()
    assert house.sender.urls() == [URL, HOOK, URL]
    await house.crash()
    await house.recover()
    assert house.sender.urls() == []
    house.contexts.is_away = False
    await house.advance(5_000)
    assert (house.sender.urls(), house.executions()) == ([HOOK], {1: State.SUCCEEDED})


async def test_a_job_that_has_ended_leaves_nothing_there(house: ApartHouse) -> None:
    """What was put is removed, also of an execution that was retried."""
    house.sender.answers(URL, 200, 500)
    await house.create(qos=1, retry=[{"errorEquals": "500", "intervalSeconds": 60}])
    for _ in range(2):
        await house.trigger()
        await house.settle()
    assert list(house.contexts.versions) == ["job"]
    await house.advance(61_000)
    assert house.executions() == {1: State.SUCCEEDED, 2: State.SUCCEEDED}
    assert (house.contexts.versions, house.contexts.puts > 2) == ({}, True)
