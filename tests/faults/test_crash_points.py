"""Killed before and after each durable write and each send, a service goes on as it promised
(SPEC sections 3, 5, 8).

The usual run takes each kind of place once, and one point of each story; `--long` takes every point. What the
points have in common is held in process (`tests/conformance/hosts/test_crash_points.py`, `tests/simulation`).
How many points a story passes depends on the machine, as turns share a commit where they wait for one: a
group is held to half of what it passes on one that has nothing else to do.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.faults.callers import Operations, Updated
from tests.faults.homes import SqliteHome
from tests.faults.queued import LOSING, Freed, LostInstance, Queued, Unclaimed
from tests.faults.stories import Feedback, Sweep
from tests.faults.sweeping import EVERYWHERE, kills, survive, sweep_group

pytestmark = pytest.mark.timeout(600)


async def test_each_kind_of_place_may_be_the_last(tmp_path: Path) -> None:
    """Before and after a commit, a write of the history, a send: killed there when it comes by once more."""

    async def crash(place: str) -> list[str]:
        home = SqliteHome(tmp_path / place.replace(" ", "-"))
        return await survive(home, partial(Sweep, qos=1), 2, only=(place,))

    assert await asyncio.gather(*map(crash, EVERYWHERE)) == [[place] for place in EVERYWHERE]


@pytest.mark.parametrize("points", kills(23, 27))
async def test_qos_1_goes_on_from_where_it_stood(tmp_path: Path, points: Sequence[int]) -> None:
    """No recorded step is sent again, one in flight is with its key, nothing is doubled or forgotten."""
    await sweep_group(tmp_path, partial(Sweep, qos=1), points=points, least=4)


@pytest.mark.parametrize("points", kills(23, 38))
async def test_qos_0_loses_what_was_running_and_no_more(tmp_path: Path, points: Sequence[int]) -> None:
    """What a crash cuts off ends as lost and is told so; triggers and firings that wait go on."""
    await sweep_group(tmp_path, partial(Sweep, qos=0), points=points, least=2)


@pytest.mark.parametrize("points", kills(11, 13))
async def test_every_accepted_feedback_has_its_effect(tmp_path: Path, points: Sequence[int]) -> None:
    """A report that was answered 200 is never needed again; one that was not may be repeated."""
    await sweep_group(tmp_path, Feedback, points=points, least=2)


@pytest.mark.long
@pytest.mark.parametrize("points", kills(11, 12))
async def test_what_a_caller_asked_for_counts_once(tmp_path: Path, points: Sequence[int]) -> None:
    """Creation, triggers with a key, update, pause, destruction: done or not done, whatever was answered."""
    await sweep_group(tmp_path, Operations, points=points, least=3)


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("points", kills(11, 13))
async def test_parts_of_a_queue_are_completed_once(tmp_path: Path, points: Sequence[int], qos: int) -> None:
    """Claims, renewals, completions and the turns they lead to: no part lost or left behind, none twice."""
    await sweep_group(tmp_path, partial(Queued, qos=qos), points=points, least=2)


@pytest.mark.long
@pytest.mark.parametrize("points", kills(11, 13))
async def test_a_part_that_was_freed_stays_so(tmp_path: Path, points: Sequence[int]) -> None:
    """Freed or held, never freed and then held again by whoever had it."""
    await sweep_group(tmp_path, Freed, points=points, least=2)


@pytest.mark.long
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("points", kills(17, 7))
async def test_a_lost_instance_ends_its_work_once(tmp_path: Path, points: Sequence[int], qos: int) -> None:
    """Whenever the scheduler dies: the instance that has the work in hand is missed, and once."""
    tell = partial(LostInstance, qos=qos)
    house = partial(SqliteHome, further=LOSING)
    await sweep_group(tmp_path, tell, points=points, house=house)


@pytest.mark.long
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("points", kills(9, 8))
async def test_what_nobody_claims_ends_once(tmp_path: Path, points: Sequence[int], qos: int) -> None:
    """The end of a queue timeout reaches its job over a crash, and no part is left behind."""
    await sweep_group(tmp_path, partial(Unclaimed, qos=qos), points=points)


@pytest.mark.long
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("points", kills(11, 12))
async def test_an_update_waits_for_what_runs(tmp_path: Path, points: Sequence[int], qos: int) -> None:
    """The execution that an update of a `one_time` starts is neither lost nor doubled, and runs alone."""
    await sweep_group(tmp_path, partial(Updated, qos=qos), points=points, least=2)
