"""A write that fails changes no outcome: nothing is lost, nothing is sent twice."""

import asyncio
import contextlib
import sqlite3
from collections import Counter
from pathlib import Path

import httpx
import pytest

from scheduler_service.ports.errors import StoreError
from tests.fault_points import Breaking
from tests.faults.inside import Inside, open_inside
from tests.faults.stories import Sweep
from tests.faults.target import open_target

PASSAGES = (2, 9)


def breaking_disk(place: str, passage: int) -> Breaking:
    """Fails once, at the n-th passage of `place`."""
    return Breaking(place, sqlite3.OperationalError("disk I/O error"), passage=passage)


class Patient(Inside):
    """Asks again where the store was away: 503 says that nothing was done, or that nobody knows."""

    async def ask(self, method: str, path: str, **options: object) -> httpx.Response:
        answer = await super().ask(method, path, **options)
        return answer if answer.status_code != 503 else await super().ask(method, path, **options)


async def fail_once(folder: Path, place: str, passage: int) -> bool:
    """One story over a store that fails once; False: it ended before the failure."""
    faults = breaking_disk("", passage)
    async with open_target() as target:
        async with open_inside(folder, faults=faults, notification__interval_seconds=0.2) as inside:
            faults.place = place
            story = Sweep(target, 1)
            patient = Patient(inside.service, inside.log)
            try:
                await story.play(patient)
                await story.check_answers(patient)
            except BaseException as error:
                error.add_note(f"{place} broke at passage {passage}: {inside.log}")
                raise
        counts = Counter(one.identity for one in target.seen if one.path != "/told")
        assert max(counts.values()) == 1, counts.most_common(2)
    return faults.has_broken


@pytest.mark.timeout(300)
@pytest.mark.parametrize("place", ["before state.commit", "after state.commit", "before history.commit"])
async def test_a_write_that_fails_once_changes_no_outcome(tmp_path: Path, place: str) -> None:
    """Refused or unknown, early and late in a story: each call is made once, each end is recorded."""
    broken = await asyncio.gather(*(fail_once(tmp_path / str(one), place, one) for one in PASSAGES))
    assert broken[0], "how many more there are depends on how many writes meet"


async def start_over(folder: Path, passage: int) -> bool:
    """A start whose store fails once, another one, and a story; whether the first start was refused."""
    faults, is_refused = breaking_disk("before state.commit", passage), True
    with contextlib.suppress(StoreError):
        async with open_inside(folder, faults=faults):
            is_refused = False
    async with open_target() as target, open_inside(folder, notification__interval_seconds=0.2) as inside:
        story = Sweep(target, 1)
        await story.play(inside)
        await story.check_answers(inside)
        listed = await inside.read("/jobs", system="true")
        assert {"check-timers", "clean", "outbox"} <= {one["jobId"] for one in listed["items"]}
    return is_refused


@pytest.mark.timeout(120)
async def test_a_start_that_cannot_write_is_refused_and_made_good_by_the_next(tmp_path: Path) -> None:
    """Each write of a start in turn: it does not serve on sand; the next one is whole."""
    refused = [await start_over(tmp_path / str(passage), passage) for passage in range(1, 6)]
    assert refused[0], "the leases are the first to be written"
    assert sum(refused) >= 3, refused  # but for looks at leases and what the history has: these come again
