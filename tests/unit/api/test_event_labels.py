"""Events chosen by the labels of their jobs: asked for once, again after a change, never guessed."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from scheduler_service.api.event_labels import JobLabels
from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.ports.errors import StoreUnavailable

pytestmark = pytest.mark.anyio


class Entry:
    """What is asked for of a job."""

    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels


class Jobs:
    """A catalogue of labels, and which jobs it was asked for."""

    def __init__(self, **labels: dict[str, str]) -> None:
        self.labels = labels
        self.asked: list[Sequence[str]] = []
        self.is_away = False

    async def some(self, job_ids: Sequence[str]) -> Mapping[str, Entry]:
        self.asked.append(job_ids)
        if self.is_away:
            raise StoreUnavailable("away")
        return {one: Entry(self.labels[one]) for one in job_ids if one in self.labels}


def happened(*job_ids: str | None, kind: OccurrenceKind = OccurrenceKind.STARTED) -> list[Occurrence]:
    return [Occurrence(kind=kind, at=1, job_id=job_id) for job_id in job_ids]


def labels(jobs: Jobs, *wanted: tuple[str, str]) -> JobLabels:
    catalogue: Any = jobs
    return JobLabels(wanted=wanted, catalogue=catalogue)


async def test_a_job_is_asked_for_once_until_it_changes() -> None:
    """A job that is not known yet is asked for again."""
    jobs = Jobs(one={"team": "a", "tier": "1"}, two={"team": "a"})
    found = labels(jobs, ("team", "a"), ("tier", "1"))
    await found.look_up(happened("one", "two", None, "none"))
    assert [found.fit(one) for one in ("one", "two", "none", None)] == [True, False, False, False]
    await found.look_up(happened("one", "two", None))
    assert jobs.asked == [["none", "one", "two"]]
    jobs.labels["two"] = {"team": "a", "tier": "1"}
    await found.look_up(happened("one", "two", kind=OccurrenceKind.JOB_UPDATED))
    assert (found.fit("two"), jobs.asked[1:]) == (True, [["one", "two"]])


async def test_a_change_that_could_not_be_read_is_read_later() -> None:
    """What was known before does not count any more."""
    jobs = Jobs(one={"team": "a"})
    found = labels(jobs, ("team", "a"))
    await found.look_up(happened("one"))
    jobs.is_away = True
    with pytest.raises(StoreUnavailable):
        await found.look_up(happened("one", kind=OccurrenceKind.JOB_UPDATED))
    jobs.is_away, jobs.labels["one"] = False, {}
    await found.look_up(happened("one"))
    assert not found.fit("one")


async def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond that the others are asked for again."""
    monkeypatch.setattr("scheduler_service.api.event_labels.KEPT", 2)
    jobs = Jobs(**{name: {"team": "a"} for name in ("one", "two", "three")})
    found = labels(jobs, ("team", "a"))
    await found.look_up(happened("one", "two"))
    await found.look_up(happened("two", "three"))
    assert [found.fit(one) for one in ("two", "three", "one")] == [True, True, False]
    await found.look_up(happened("one"))
    assert jobs.asked == [["one", "two"], ["three"], ["one"]]
