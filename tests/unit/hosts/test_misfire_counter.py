"""Long runs of missed firings are counted outside of turns (SPEC section 3)."""

import pytest

from scheduler_service.domain.records import FiringRecord
from tests.unit.hosts.house import House

pytestmark = pytest.mark.anyio


async def test_a_long_run_of_missed_firings_is_counted_outside_the_turn() -> None:
    """The ledger gets its count as soon as the walk has ended (SPEC section 3)."""
    house = await House().start()
    await house.create(timer={"dueTime": "", "period": "* * * * * ?"})
    await house.crash()
    house.clock.advance(2 * 3_600_000)
    await house.start()
    await house.advance(2_000)
    counts = [one.count for one in house.history.records() if isinstance(one, FiringRecord)]
    assert None in counts
    assert max(count for count in counts if count is not None) == pytest.approx(7_140, abs=70)
