"""Who gets which event, and what a frame says."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from client_sdk.models import answers
from scheduler_service.api.events import EventStreamResponse, JobLabels, choose, event_wire, gap_frame
from scheduler_service.domain.execution import FailureType, TriggeredBy
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.telemetry.event_feed import EventFeed, LocalEvents
from scheduler_service.telemetry.event_source import Occurrences
from scheduler_service.telemetry.log_summaries import Tally
from tests.rows import each_row

FAILED = Occurrence(
    kind=OccurrenceKind.FINAL_FAILED,
    at=1_000,
    tenant="default",
    job_id="one",
    uid="u",
    execute_number=7,
    triggered_by=TriggeredBy.TIMER,
    state="terminated",
    error="500",
    failure_type=FailureType.HTTP,
    planned_at=900,
    lateness_ms=3,
    count=2,
)
LOST = Occurrence(kind=OccurrenceKind.WORKER_LOST, at=1, subject="1")
GAP = Occurrence(kind=OccurrenceKind.GAP, at=1, count=3)


def chosen(occurrence: Occurrence, tenant: str = "default", **given: Any) -> bool:
    return choose({"event": (), "jobId": (), "executionId": ()} | given, tenant)(occurrence)


@each_row(
    ("given", "is_chosen"),
    [
        ({}, True),
        ({"event": ("finalFailed", "started")}, True),
        ({"event": ("started",)}, False),
        ({"jobId": ("one", "two")}, True),
        ({"jobId": ("two",)}, False),
        ({"executionId": ("u-7",)}, True),
        ({"executionId": ("u-8",)}, False),
        ({"executionId": ("u-7",), "jobId": ("two",)}, False),
    ],
)
def test_all_filters_must_fit(given: dict[str, Any], is_chosen: bool) -> None:
    """Of one filter any of its values."""
    assert chosen(FAILED, **given) is is_chosen


def test_events_of_another_tenant_are_not_for_this_caller() -> None:
    """Neither by a filter; the job's id of one tenant is not that of another."""
    assert not chosen(FAILED, tenant="other")
    assert not chosen(FAILED, tenant="other", jobId=("one",))
    # What concerns the service is for the tenant default
    assert chosen(LOST, tenant="default")
    assert not chosen(LOST, tenant="other")
    assert not chosen(LOST, jobId=("one",))
    assert chosen(GAP, tenant="other", jobId=("one",), event=("started",))


def test_an_event_is_as_the_model_says() -> None:
    """Times in RFC 3339; what has no value is left out."""
    wire = event_wire(FAILED)
    assert wire["at"] == "1970-01-01T00:00:01.000Z"
    assert "message" not in wire
    event = answers.Event.model_validate_json(json.dumps(wire))
    assert (event.kind, event.execution_id, event.lateness_ms) == ("finalFailed", "u-7", 3)
    assert event.model_extra == {}
    # A gap has no id and a number where it is known
    assert gap_frame(3, 0).decode().splitlines() == [
        "event: gap",
        'data: {"kind":"gap","at":"1970-01-01T00:00:00.000Z","count":3}',
        "",
    ]
    assert b"count" not in gap_frame(-1, 0)


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
    # A change that could not be read is read later: what was known before does not count any more
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
    monkeypatch.setattr("scheduler_service.api.events.KEPT", 2)
    jobs = Jobs(**{name: {"team": "a"} for name in ("one", "two", "three")})
    found = labels(jobs, ("team", "a"))
    await found.look_up(happened("one", "two"))
    await found.look_up(happened("two", "three"))
    assert [found.fit(one) for one in ("two", "three", "one")] == [True, True, False]
    await found.look_up(happened("one"))
    assert jobs.asked == [["one", "two"], ["three"], ["one"]]


@pytest.mark.parametrize("counts_gaps", [True, False])
async def test_events_whose_jobs_cannot_be_looked_up_are_a_gap(counts_gaps: bool) -> None:
    """A line of the log says why; those after them come as ever.

    It has their number for callers who may know it: it counts what happens to others, too (SPEC section 14).
    """
    occurrences = Occurrences()
    feed = EventFeed(source=LocalEvents(occurrences=occurrences, line="7"), most_readers=1)
    is_away, sent = True, asyncio.Queue[bytes]()
    lines: list[tuple[str, dict[str, object]]] = []
    faults = Tally("store_failed", log=lambda event, /, **keys: lines.append((event, keys)))

    async def look_up(ahead: Sequence[Occurrence]) -> None:
        if is_away:
            raise StoreUnavailable("away")

    async def send(message: Any) -> None:
        if message.get("body"):
            sent.put_nowait(message["body"])

    stream = EventStreamResponse(
        reader=await feed.follow(),
        wants=lambda occurrence: True,
        readers=lambda: feed.readers,
        wall=lambda: 0,
        store_faults=faults,
        look_up=look_up,
        counts_gaps=counts_gaps,
    )
    answering = asyncio.create_task(stream({}, asyncio.Event().wait, send))  # type: ignore[arg-type]
    async with asyncio.timeout(20):
        assert (await sent.get()).startswith(b"retry")
        for number in (1, 2):
            occurrences.publish(Occurrence(kind=OccurrenceKind.STARTED, at=number, job_id="one"))
        gap = await sent.get()
        assert b"event: gap" in gap
        assert (b'"count":2' in gap) is counts_gaps
        assert lines == [("store_failed", {"error": "away", "requests": 1})]
        is_away = False
        occurrences.publish(Occurrence(kind=OccurrenceKind.GAP, at=3, count=5))
        assert (b'"count":5' in await sent.get()) is counts_gaps
        occurrences.publish(Occurrence(kind=OccurrenceKind.STARTED, at=3, job_id="one"))
        assert b"event: started" in await sent.get()
        assert faults.counts == {"requests": 1}
        await feed.close()
        await answering
