"""A write that fails changes no outcome: nothing is lost, nothing is sent twice (DESIGN section 3)."""

import asyncio
import sqlite3
from collections import Counter
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.faults.inside import Inside, open_inside
from tests.faults.stories import Sweep
from tests.faults.target import open_target

pytestmark = pytest.mark.anyio
AT_ONCE = 12


class Breaking:
    """A tap that raises, once, at the n-th passage of `place`."""

    def __init__(self, place: str, passage: int) -> None:
        self._place = place
        self._left = passage

    @property
    def has_broken(self) -> bool:
        return self._left <= 0

    def before(self, point: str) -> None:
        self._pass(f"before {point}")

    def after(self, point: str) -> None:
        self._pass(f"after {point}")

    def _pass(self, place: str) -> None:
        if place == self._place:
            self._left -= 1
            if self._left == 0:
                raise sqlite3.OperationalError("disk I/O error")


class Patient(Inside):
    """Asks again where the store was away: 503 says that nothing was done, or that nobody knows."""

    async def ask(self, method: str, path: str, **options: object) -> httpx.Response:
        answer = await super().ask(method, path, **options)
        return answer if answer.status_code != 503 else await super().ask(method, path, **options)


async def fail_once(folder: Path, place: str, passage: int, qos: int) -> bool:
    """One story over a store that fails once; False: it ended before the failure."""
    tap = Breaking(place, passage)
    async with open_target() as target:
        async with open_inside(folder, tap=tap, notification__interval_seconds=0.2) as inside:
            story = Sweep(target, qos)
            patient = Patient(inside.service, inside.log)
            try:
                await story.play(patient)
                await story.check_answers(patient)
            except BaseException as error:
                error.add_note(f"{place} broke at passage {passage}, qos {qos}: {inside.log}")
                raise
        counts = Counter(one.identity for one in target.seen if one.path != "/told")
        assert max(counts.values()) == 1, counts.most_common(2)
    return tap.has_broken


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", [4, *(pytest.param(one, marks=pytest.mark.long) for one in (5, 6, 7))])
@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("place", ["before state.commit", "after state.commit", "before history.commit"])
async def test_a_write_that_fails_once_changes_no_outcome(
    tmp_path: Path, place: str, qos: int, first: int
) -> None:
    """Refused or unknown, each write of a story in turn: every call is made once, every end is recorded."""
    places = asyncio.Semaphore(AT_ONCE)

    async def fail(passage: int) -> bool:
        async with places:
            return await fail_once(tmp_path / str(passage), place, passage, qos)

    # The first three are the start's own: the system jobs, and what they tell the history.
    broken = await asyncio.gather(*map(partial(fail), range(first, 60, 4)))
    assert sum(broken) >= 2
