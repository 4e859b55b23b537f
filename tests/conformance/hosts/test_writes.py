"""What one execution of a cluster writes, counted: one more claim, state or reminder fails here."""

from collections import Counter

import pytest

from scheduler_service.domain.turn_events import Created
from scheduler_service.ports.delivery import Command
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio

FIRINGS = 6
TICK = 500
# A reminder is at most 30 s ahead: for what fires each second it is one in 30, else one for each firing.
MOST_REMINDERS = {1: 0.5, 60: 1.5}


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("period", [1, 60])
async def test_an_execution_writes_two_claims(period: int, qos: int) -> None:
    """At the firing and at the end; nothing in the outbox, few reminders, no firing reads (decision 47).

    At qos 1 its context is put before the first, and removed after the second, with others.
    """
    house = await DaprHouse().start()
    try:
        timer = {"period": f"PT{period}S", "dueTime": "1s"}
        definition = describe(jobId="job", qos=qos, timer=timer, request=[{"url": "http://target.test/"}])
        await house.host("job", Command(Created("", b""), definition))
        await pass_time(house, 1)
        first = len(house.executions("job"))
        assert first == 1
        house.points.seen.clear()
        house.world.reads = 0
        await pass_time(house, FIRINGS * period)
        assert len(house.executions("job")) == first + FIRINGS
        assert house.world.reads <= 1  # the guard of the first firing rings in vain
        assert FIRINGS * qos <= house.points.seen["before save"] <= 2 * FIRINGS * qos
        assert_bounds(house.points.seen, MOST_REMINDERS[period])
    finally:
        await house.close()


def assert_bounds(seen: Counter[str], reminders: float) -> None:
    """For each execution."""
    assert seen["before send"] == FIRINGS
    assert seen["before claim"] == 2 * FIRINGS
    assert seen["before outbox"] == seen["before settlement"] == 0
    assert seen["before reminder"] <= reminders * FIRINGS


async def pass_time(house: DaprHouse, seconds: int) -> None:
    """In steps as small as those of the crash points."""
    for _ in range(seconds * 1_000 // TICK):
        await house.advance(TICK)
