"""A host's time."""

import pytest

from scheduler_service.domain.moments import Now
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.ports.errors import StoreUnavailable

pytestmark = pytest.mark.anyio


class Machine:
    """A wall clock and a monotonic one, in seconds."""

    def __init__(self) -> None:
        self.wall = 1_000.0
        self.monotonic = 50.0
        self.kept: list[int] = []
        self.is_broken = False

    def run(self, seconds: float) -> None:
        """Both run on."""
        self.wall += seconds
        self.monotonic += seconds

    async def keep(self, skew: int) -> None:
        """Makes a skew durable."""
        if self.is_broken:
            raise StoreUnavailable("away")
        self.kept.append(skew)

    def clock(self, skew: int = 400_000) -> SystemClock:
        """The clock of this machine."""
        return SystemClock(
            skew=skew, on_step=self.keep, wall=lambda: self.wall, monotonic=lambda: self.monotonic
        )


async def test_steady_is_wall_minus_skew() -> None:
    """Both lines run on with the monotonic clock."""
    machine = Machine()
    clock = machine.clock()
    assert clock.now() == Now(1_000_000, 600_000)
    machine.run(1.5)
    assert clock.now() == Now(1_001_500, 601_500)
    assert await clock.follow() is False


async def test_a_step_of_a_second_or_less_is_no_step() -> None:
    """The wall is anchored anew only when it steps by more than a second."""
    machine = Machine()
    clock = machine.clock()
    machine.wall += 0.9
    assert await clock.follow() is False
    assert clock.now() == Now(1_000_000, 600_000)


@pytest.mark.parametrize("step", [3600, -3600])
async def test_steady_runs_on_when_the_wall_is_set(step: int) -> None:
    """Firings follow the wall; limits and leases keep what is left of them (SPEC section 3)."""
    machine = Machine()
    clock = machine.clock()
    machine.run(1)
    machine.wall += step
    assert clock.now() == Now(1_001_000, 601_000), "not before it is followed"
    assert await clock.follow() is True
    assert clock.now() == Now(1_001_000 + step * 1_000, 601_000)
    assert machine.kept == [400_000 + step * 1_000]
    assert clock.skew == machine.kept[-1]
    assert await clock.follow() is False


async def test_no_turn_sees_a_step_whose_skew_is_not_durable() -> None:
    """A restart reads the skew: before it is kept, the old anchor counts."""
    machine = Machine()
    clock = machine.clock()
    machine.wall += 100
    machine.is_broken = True
    with pytest.raises(StoreUnavailable):
        await clock.follow()
    assert clock.now() == Now(1_000_000, 600_000)
    machine.is_broken = False
    assert await clock.follow() is True
    assert clock.now() == Now(1_100_000, 600_000)
