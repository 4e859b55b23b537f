"""A defect in the alarms themselves stops no firing for good."""

import pytest

from scheduler_service.domain.moments import SECOND
from tests.manual_clock import ManualClock
from tests.unit.hosts.embedded.alarm_rig import Tower
from tests.unit.hosts.house import SKEW, START

pytestmark = pytest.mark.anyio


class FaultyClock(ManualClock):
    """Fails once, the next time that somebody asks it for a step."""

    is_faulty = False

    async def follow(self) -> bool:
        if self.is_faulty:
            self.is_faulty = False
            raise ArithmeticError("nobody has thought of this")
        return await super().follow()


async def test_ringing_goes_on_after_a_defect() -> None:
    """What was due meanwhile rings a second later, once, and the log has the defect."""
    clock = FaultyClock(wall=START, skew=SKEW)
    tower = Tower(clock=clock)
    tower.set("before", wall=500)
    tower.set("during", wall=2_500)
    tower.set("after", wall=9_000)
    await tower.alarms.start()
    await tower.advance(1_500)
    clock.is_faulty = True
    await tower.advance(SECOND)
    assert tower.log == ["task_failed"]
    await tower.advance(2 * SECOND)
    assert tower.rung == ["before", "during"]
    await tower.advance(6 * SECOND)
    assert tower.rung == ["before", "during", "after"]
    assert tower.log == ["task_failed"]
    await tower.alarms.stop()


async def test_reading_goes_on_after_a_defect() -> None:
    """Due times beyond the first window are read though one reading met a defect."""
    tower = Tower()

    async def fail_once() -> None:
        tower.store.during_read = None
        raise ArithmeticError("nobody has thought of this")

    tower.set("far", wall=60 * SECOND)
    await tower.alarms.start()
    await tower.settle()
    tower.store.during_read = fail_once
    await tower.advance(61 * SECOND)
    assert tower.log == ["task_failed"]
    assert tower.rung == ["far"]
    await tower.alarms.stop()
