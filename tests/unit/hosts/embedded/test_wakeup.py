"""The sleep of the alarms: as long as they say, unless something comes that is due before."""

import asyncio

import pytest

from scheduler_service.domain.moments import Due
from scheduler_service.hosts.embedded.wakeup import Wakeup
from tests.manual_clock import ManualClock
from tests.unit.hosts.house import SKEW, START, until

pytestmark = pytest.mark.anyio

STEADY = START - SKEW
AHEAD = 500


class Bed:
    """A waker asleep for a second."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=START, skew=SKEW)
        self.waker = Wakeup(clock=self.clock, ahead=AHEAD)
        self.sleep = asyncio.ensure_future(self.waker.sleep(self.clock.now(), 1_000))

    async def is_asleep(self) -> bool:
        """After everything that can go on has gone on."""
        for _ in range(5):
            await asyncio.sleep(0)
        return not self.sleep.done()


async def test_it_wakes_by_itself() -> None:
    """In its own time, and not before."""
    bed = Bed()
    assert await bed.is_asleep()
    bed.clock.advance(999)
    assert await bed.is_asleep()
    bed.clock.advance(1)
    await until(bed.sleep.done)


async def test_it_is_woken_for_what_is_due_before() -> None:
    """At once, or in a while; for what is later it sleeps on."""
    bed = Bed()
    assert await bed.is_asleep()
    bed.waker.wake(bed.clock.now(), 2_000)
    bed.waker.wake(bed.clock.now(), 300)
    bed.clock.advance(299)
    assert await bed.is_asleep()
    bed.clock.advance(1)
    await until(bed.sleep.done)
    assert bed.waker.is_awake

    bed = Bed()
    assert await bed.is_asleep()
    bed.waker.wake(bed.clock.now(), 0)
    assert bed.waker.is_awake
    await until(bed.sleep.done)


@pytest.mark.parametrize(
    ("due", "is_slept_past"),
    [
        (Due(), False),
        (Due(steady=STEADY + 999), True),
        (Due(steady=STEADY + 1_000), False),
        (Due(wall=START + 1_000), True),
        (Due(wall=START + 1_000 + AHEAD), True),
        (Due(wall=START + 1_001 + AHEAD), False),
        (Due(wall=START + 60_000, steady=STEADY + 10), True),
    ],
)
async def test_what_comes_after_it_wakes_is_told_apart(due: Due, is_slept_past: bool) -> None:
    """A wall moment may be wanted ahead of itself by as much as was said; it is no loss to be woken."""
    bed = Bed()
    assert await bed.is_asleep()
    assert bed.waker.sleeps_past(due) is is_slept_past
    bed.waker.close()
    bed.sleep.cancel()
