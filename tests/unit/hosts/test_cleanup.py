"""What `system://clean` removes, also where one part of it fails."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import TRIALS
from scheduler_service.domain.moments import Now
from scheduler_service.domain.turn_events import Destroyed
from scheduler_service.hosts.cleanup import ROUND, TRIAL_KEPT_MS, TRIALS_READ, Cleanup, TrialRounds, Trials
from scheduler_service.ports.catalogue import CatalogueEntry, JobQuery
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StateUnreadable, StoreUnavailable
from tests.manual_clock import ManualClock
from tests.rows import each_row
from tests.unit.hosts.house import until

pytestmark = pytest.mark.anyio


class Retention:
    """Counts its rounds."""

    executions = notifications = 0

    def __init__(self) -> None:
        self.rounds = 0
        self.given: dict[str, Any] = {}

    async def run(self, now: int) -> "Retention":
        self.rounds += 1
        return self

    async def clean(self, **given: Any) -> dict[str, int]:
        self.given = given
        return {}

    async def lives(self, tenant: str, job_ids: Any) -> list[str]:
        return [f"earlier-{job_id}" for job_id in job_ids]


START = 1_700_000_000_000


class Shelf:
    """Jobs by id, as store and as catalogue, with what was destroyed and forgotten."""

    def __init__(self) -> None:
        self.entries: dict[str, CatalogueEntry] = {}
        self.destroyed: list[str] = []
        self.wall = START + TRIAL_KEPT_MS
        self.is_down = False
        self.damaged = ""
        self.defect: Exception | None = None

    @property
    def catalogue(self) -> Any:
        return self

    def add(self, job_id: str, **members: Any) -> None:
        given: dict[str, Any] = {
            "uid": job_id, "tenant": "default", "job_name": "a", "object_id": None, "creator": "1",
            "kind": "external", "state": JobState.ACTIVE, "revision": 1, "labels": {}, "parent_job": TRIALS,
            "parent_execution": None, "next_fire": None, "execute_number": 1, "request_counts": 1,
            "missed": 0, "latest": b"", "created_at": START, "updated_at": START,
        }  # fmt: skip
        self.entries[job_id] = CatalogueEntry(job_id, **given | members)

    async def children(
        self, parent_job: str, parent_execution: int | None, *, after: str, limit: int
    ) -> Sequence[CatalogueEntry]:
        await asyncio.sleep(0)
        found = sorted(name for name, one in self.entries.items() if one.parent_job == parent_job)
        return [self.entries[name] for name in found if name > after][:limit]

    async def list(self, query: JobQuery) -> Any:
        found = [one for one in self.entries.values() if one.state in query.states]
        return SimpleNamespace(items=found, next_cursor=None)

    async def forget(self, job_id: str) -> bool:
        return self.entries.pop(job_id, None) is not None

    async def deliver(self, job_id: str, command: Command) -> Any:
        if self.defect is not None:
            raise self.defect
        if self.is_down:
            raise StoreUnavailable("away")
        if job_id == self.damaged:
            raise StateUnreadable("the state of this job is damaged")
        assert isinstance(command.event, Destroyed)
        self.destroyed.append(job_id)

    def now(self) -> Now:
        return Now(self.wall, 0)

    def trials(self) -> Trials:
        return Trials(store=self, deliver=self.deliver, clock=self)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


async def test_those_that_are_over_go(shelf: Shelf) -> None:
    """At the end of their time, not before; nothing of them stays."""
    shelf.add("trial:a")
    shelf.wall -= 1
    assert (await shelf.trials().sweep(), shelf.destroyed) == (1, [])
    shelf.wall += 1
    assert (await shelf.trials().sweep(), shelf.destroyed, shelf.entries) == (0, ["trial:a"], {})


@pytest.mark.parametrize("members", [{"live": 1}, {"waiting": 1}])
async def test_one_that_runs_or_waits_stays(members: dict[str, int], shelf: Shelf) -> None:
    """However old it is."""
    shelf.add("trial:a", **members)
    shelf.wall += 99 * TRIAL_KEPT_MS
    assert (await shelf.trials().sweep(), shelf.destroyed) == (1, [])


async def test_what_a_crash_left_is_removed(shelf: Shelf) -> None:
    """A destroyed one is not destroyed again, only forgotten, however young."""
    shelf.add("trial:a", state=JobState.DESTROYED, created_at=shelf.wall)
    assert (await shelf.trials().sweep(), shelf.destroyed, shelf.entries) == (0, [], {})
    # A trial is one by its id and its parent together
    shelf.add("mine")
    shelf.add("trial:c", parent_job=None)
    shelf.add("trial:b", parent_job="mine")
    assert (await shelf.trials().sweep(), shelf.destroyed) == (0, [])
    assert list(shelf.entries) == ["mine", "trial:c", "trial:b"]


async def test_those_of_one_tenant_are_counted(shelf: Shelf) -> None:
    """So that the trials of one use up no other's; those that are over go, whosever they are."""
    shelf.add("trial:a", live=1)
    shelf.add("trial:b")
    for name in "cd":
        shelf.add(f"team|trial:{name}", tenant="team", live=1)
    counts = [await shelf.trials().sweep(tenant) for tenant in ("team", "default", "other", None)]
    assert (counts, shelf.destroyed) == ([2, 1, 0, 3], ["trial:b"])


async def test_all_pages_are_looked_at(shelf: Shelf) -> None:
    """Though those that are removed leave the pages."""
    for number in range(2 * TRIALS_READ + 1):
        shelf.add(f"trial:{number:04}", live=number % 2)
    assert await shelf.trials().sweep() == TRIALS_READ
    assert len(shelf.destroyed) == TRIALS_READ + 1


async def test_a_store_that_is_away_is_told(shelf: Shelf) -> None:
    """Nothing is forgotten that was not destroyed."""
    shelf.add("trial:a")
    shelf.is_down = True
    with pytest.raises(StoreUnavailable):
        await shelf.trials().sweep()
    assert list(shelf.entries) == ["trial:a"]


async def test_a_damaged_one_keeps_no_other_from_its_end(shelf: Shelf) -> None:
    """It is told when all have been looked at, and stays."""
    shelf.add("trial:a")
    shelf.add("trial:b")
    shelf.damaged = "trial:a"
    with pytest.raises(StateUnreadable, match="damaged"):
        await shelf.trials().sweep()
    assert (shelf.destroyed, list(shelf.entries)) == (["trial:b"], ["trial:a"])


class Rounds:
    """Rounds over a shelf, with a clock in the test's hand and the words of the log."""

    def __init__(self) -> None:
        self.shelf = Shelf()
        self.clock = ManualClock()
        self.words: list[str] = []
        self.rounds = TrialRounds(
            trials=self.shelf.trials(),
            clock=self.clock,
            log=lambda event, /, **keys: self.words.append(event),
        )

    async def settle(self) -> None:
        """The round under way ends."""
        await until(lambda: self.rounds.is_idle)

    async def advance(self, pause: int) -> None:
        """The clock moves, and what begins then ends."""
        self.clock.advance(pause)
        await self.settle()


@pytest.fixture
def world() -> Rounds:
    return Rounds()


async def test_the_first_round_is_at_the_start_and_others_follow(world: Rounds) -> None:
    """What a kill left goes at once, what comes later within a minute; none follows the stop."""
    world.shelf.add("trial:a")
    world.rounds.start()
    await world.settle()
    assert world.shelf.destroyed == ["trial:a"]
    world.shelf.add("trial:b")
    await world.advance(ROUND - 1)
    assert world.shelf.destroyed == ["trial:a"]
    await world.advance(1)
    assert world.shelf.destroyed == ["trial:a", "trial:b"]
    await world.rounds.stop()
    world.shelf.add("trial:c")
    await world.advance(10 * ROUND)
    assert list(world.shelf.entries) == ["trial:c"]


async def test_rounds_go_on_where_the_store_was_away(world: Rounds) -> None:
    """Its trouble is two lines of the log, however long it lasts."""
    world.shelf.add("trial:a")
    world.shelf.is_down = True
    world.rounds.start()
    await world.settle()
    await world.advance(ROUND)
    assert (world.words, list(world.shelf.entries)) == (["trials_not_ended"], ["trial:a"])
    world.shelf.is_down = False
    await world.advance(ROUND)
    assert (world.words, world.shelf.entries) == (["trials_not_ended", "trials_ended_again"], {})
    await world.rounds.stop()


async def test_rounds_go_on_after_a_defect(world: Rounds) -> None:
    """It is told as the trouble of a store is, and the next round is as any other."""
    world.shelf.add("trial:a")
    world.shelf.defect = ZeroDivisionError("a defect")
    world.rounds.start()
    await world.settle()
    assert (world.words, list(world.shelf.entries)) == (["trials_not_ended"], ["trial:a"])
    world.shelf.defect = None
    await world.advance(ROUND)
    assert (world.words, world.shelf.entries) == (["trials_not_ended", "trials_ended_again"], {})
    await world.rounds.stop()


async def test_a_stop_amid_a_round_is_the_last(world: Rounds) -> None:
    """Though the round would plan the next one."""
    world.rounds.start()
    await asyncio.sleep(0)
    await world.rounds.stop()
    assert world.rounds.is_idle
    assert world.clock.next_call() is None


@each_row(
    ("destroyed", "removed", "spared", "left"),
    [(True, ["earlier-old", "old"], [], ["living"]), (False, [], ["old"], ["living", "old"])],
)
async def test_what_is_cleaned_of_destroyed_jobs(
    destroyed: bool, removed: list[str], spared: list[str], left: list[str]
) -> None:
    """All or nothing; how many executions stay is said of living ones (SPEC section 10)."""
    shelf, retention = Shelf(), Retention()
    shelf.add("living")
    shelf.add("old", state=JobState.DESTROYED)
    cleanup = Cleanup(store=shelf, retention=retention, trials=shelf.trials(), clock=shelf)
    await cleanup(tenant="default", destroyed=destroyed, retain=3)
    assert retention.given == {"tenant": "default", "retain": 3, "destroyed": removed, "spared": spared}
    assert sorted(shelf.entries) == left


async def test_a_damaged_trial_keeps_no_history() -> None:
    """Retention removes what it should before the damage is told."""
    shelf, retention = Shelf(), Retention()
    shelf.add("trial:a")
    shelf.damaged = "trial:a"
    cleanup = Cleanup(store=shelf, retention=retention, trials=shelf.trials(), clock=shelf)
    with pytest.raises(StateUnreadable):
        await cleanup.sweep()
    assert retention.rounds == 1
