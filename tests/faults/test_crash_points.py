"""Killed before and after each durable write and each send, a service goes on as it promised (SPEC 3, 8)."""

from functools import partial
from pathlib import Path

import pytest

from tests.faults.callers import Feedback, Operations
from tests.faults.processes import Fleet
from tests.faults.stories import Sweep
from tests.faults.sweeping import sweep_group

pytestmark = pytest.mark.anyio
GROUPS = 6


@pytest.mark.parametrize("group", range(1, GROUPS + 1))
async def test_qos_1_goes_on_from_where_it_stood(fleet: Fleet, tmp_path: Path, group: int) -> None:
    """No recorded step is sent again, one in flight is with its key, nothing is doubled or forgotten."""
    swept = await sweep_group(fleet, tmp_path, partial(Sweep, qos=1), first=group, stride=GROUPS)
    assert swept > 10


@pytest.mark.parametrize("group", range(1, GROUPS + 1))
async def test_qos_0_loses_what_was_running_and_nothing_else(
    fleet: Fleet, tmp_path: Path, group: int
) -> None:
    """What a crash cuts off ends as lost and is told so; triggers and firings that wait go on."""
    swept = await sweep_group(fleet, tmp_path, partial(Sweep, qos=0), first=group, stride=GROUPS)
    assert swept > 10


@pytest.mark.parametrize("group", range(1, 4))
async def test_every_accepted_feedback_has_its_effect(fleet: Fleet, tmp_path: Path, group: int) -> None:
    """A report that was answered 200 is never needed again; one that was not may be repeated."""
    assert await sweep_group(fleet, tmp_path, Feedback, first=group, stride=3) > 5


@pytest.mark.parametrize("group", range(1, 4))
async def test_what_a_caller_asked_for_counts_once(fleet: Fleet, tmp_path: Path, group: int) -> None:
    """Creation, triggers with a key, update, pause, destruction: done or not done, whatever was answered."""
    assert await sweep_group(fleet, tmp_path, Operations, first=group, stride=3) > 5
