"""The source's own example, job 20220125, runs as its document describes (SPEC section 11, seeds)."""

import json
from itertools import pairwise
from typing import Any

import httpx
import pytest

from tests.wire.service import SERVED, START, World, data_of
from tests.wire.source_example import CHECK, FIVE_MINUTES, SENT, STRINGS, TOLD, WORK, example
from tests.wire.target import Reply, Seen


def status(word: str, **members: Any) -> Reply:
    """A check's answer in the form that the document gives."""
    known = {"message": "执行MySQL...", "error": "", "progress": "30%", "datetime": "2022-10-26 10:23:13"}
    return Reply(200, {"status": word, **known, "data": {}, **members})


@pytest.fixture
async def job(world: World) -> World:
    """The job exists, half a second after a five-minute mark; its target gives the students back."""
    world.target.always(WORK, lambda seen: Reply(200, {"student": seen.json["student"]}))
    world.target.always(CHECK, status("succeed", progress="100%"))
    await world.advance(0.5)
    posted = await world.client.post("/jobs/20220125", json=example())
    assert data_of(posted, 201)["kind"] == "cron"
    return world


async def fire(world: World) -> None:
    """The next five-minute mark comes."""
    passed = (world.clock.now().wall - START) % FIVE_MINUTES
    await world.advance((FIVE_MINUTES - passed) / 1_000)


def offsets(seen: list[Seen]) -> list[float]:
    """Seconds since the latest five-minute mark at which requests came."""
    return [((one.at - START) % FIVE_MINUTES) / 1_000 for one in seen]


def told(world: World) -> list[tuple[str, str | None, str]]:
    """(status, error, httpStatus) of every notification."""
    bodies = [one.json for one in world.target.at(TOLD)]
    return [(one["response"]["status"], one["response"]["error"], one["httpStatus"]) for one in bodies]


async def executions(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """The executions of the job, the newest first."""
    found: list[dict[str, Any]] = data_of(await client.get("/jobs/20220125/executions"))["items"]
    return found


async def newest(world: World) -> dict[str, Any]:
    """The newest execution in full, once it has ended."""
    entry = data_of(await world.client.get("/jobs/20220125"))["latestExecution"]
    return await world.ended(entry["executionId"])


async def test_it_is_created_as_it_stands(world: World) -> None:
    """The definition is taken word for word, and says what is dropped of it (SPEC section 3)."""
    posted = await world.client.post("/jobs/20220125", json=example())
    data = data_of(posted, 201)
    assert data["definition"] == example()
    assert data["nextFireTime"] == "2026-01-01T00:05:00.000Z"
    assert [warning["code"] for warning in posted.json()["warnings"]] == ["due_time_ignored"]
    assert posted.headers["location"] == "/jobs/20220125"


async def test_it_fires_on_the_mark_and_ends_with_its_ttl(job: World) -> None:
    """Each five minutes, not after 2 s (`dueTime` is no part of a cron), and nothing after `ttl` 5d3s."""
    await job.advance(299)
    assert job.target.seen == []
    await fire(job)
    await fire(job)
    assert [one.at - START for one in job.target.at(WORK)] == [FIVE_MINUTES, 2 * FIVE_MINUTES]
    coming = data_of(await job.client.get("/jobs/20220125/next?count=1000"))["firings"]
    assert len(coming) == 1000
    late = await job.client.get("/upcoming?from=2026-01-05T23:50:00Z&to=2026-01-07T00:00:00Z")
    assert [one["plannedAt"][8:19] for one in data_of(late)["items"]] == [
        "05T23:50:00",
        "05T23:55:00",
        "06T00:00:00",
    ]


async def test_its_requests_go_out_as_the_document_shows(job: World) -> None:
    """Order, bodies with real JSON types, headers, and a feedback URL that names the attempt."""
    await fire(job)
    assert [one.path for one in job.target.seen] == [WORK, STRINGS]
    first, second = job.target.seen
    students = [{"number": 1, "name": "20220125", "age": 40}, {"number": 8, "name": "20220125", "age": 30}]
    assert first.json == {**SENT, "student": students}
    assert second.json == {"school": students}
    for one in (first, second):
        assert one.method == "POST"
        assert one.headers["name"] == "chensc"
        assert one.headers["content-type"] == "application/json"
        assert one.headers["x-scheduling-job-id"] == "20220125"
        assert one.headers["x-scheduling-execute-number"] == "1"
        assert one.headers["x-scheduling-request-counts"] == "1"
        assert one.headers["idempotency-key"].isprintable()
        assert "." not in one.headers["idempotency-key"]
        assert one.headers["traceparent"].startswith("00-")
        assert one.headers["x-scheduling-deadline"].endswith("Z")
        assert one.query["feedbackUrl"].startswith(f"{SERVED}/jobs/20220125/feedback/1?token=")
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]
    assert first.query["feedbackUrl"] == second.query["feedbackUrl"]


async def test_it_is_checked_every_four_seconds(job: World) -> None:
    """The first check 4 s after the chain, then every 4 s; each GET notifies (SPEC sections 5, 7)."""
    job.target.answers(CHECK, status(""), status("", progress="60%"))
    await fire(job)
    await job.advance(3.999)
    assert job.target.at(CHECK) == []
    await job.advance(12)
    checks = job.target.at(CHECK)
    assert offsets(checks) == [4, 8, 12]
    for one in checks:
        assert (one.method, one.path, one.body) == ("GET", f"{CHECK}/20220125", b"")
        assert one.query == {"executeNumber": "1"}
        assert one.headers["name"] == "chensc"
    assert told(job) == [
        ("", "", "200"),
        ("", "", "200"),
        ("succeed", "", "200"),
        ("finalSucceed", "", "200"),
    ]
    for one in job.target.at(TOLD):
        assert (one.method, one.path, one.headers["name"]) == ("POST", f"{TOLD}/20220125", "chensc")
        assert one.query == {"executeNumber": "1"}
        assert (one.json["jobId"], one.json["executeNumber"], one.json["requestCounts"]) == ("20220125", 1, 1)
        assert one.json["response"]["datetime"] == "2022-10-26 10:23:13"
        assert one.json["response"]["message"] == "执行MySQL..."
        assert one.json["response"]["data"] == {}
    progress = [one.json["response"]["progress"] for one in job.target.at(TOLD)]
    assert progress == ["30%", "60%", "100%", "100%"]
    run = await newest(job)
    assert (run["state"], run["triggeredBy"], run["attemptCount"]) == ("succeeded", "timer", 1)
    assert run["plannedAt"] == "2026-01-01T00:05:00.000Z"
    assert len(run["attempts"][0]["checks"]) == 3
    assert [one["event"] for one in run["notifications"]] == [
        "inprogress",
        "inprogress",
        "succeed",
        "finalSucceed",
    ]


async def test_a_500_is_retried_with_a_backoff_of_one_and_a_half(job: World) -> None:
    """Two retries, 2 s and 3 s after the failures, the whole chain each time (SPEC section 6)."""
    job.target.answers(WORK, 500, 500, 500)
    await fire(job)
    await job.advance(30)
    assert offsets(job.target.at(WORK)) == [0, 2, 5]
    assert job.target.at(STRINGS) == job.target.at(CHECK) == []
    counts = [one.headers["x-scheduling-request-counts"] for one in job.target.at(WORK)]
    assert counts == ["1", "2", "3"]
    run = await newest(job)
    assert (run["state"], run["error"], run["attemptCount"]) == ("terminated", "500", 3)
    assert told(job) == [
        ("failed", "500", "500"),
        ("failed", "500", "500"),
        ("failed", "500", "500"),
        ("finalFailed", "500", "500"),
    ]


async def test_work_that_takes_too_long_is_retried_as_timeout(job: World) -> None:
    """15 s without an outcome is `timeout`: retried after 5 s and 10 s, then over (SPEC sections 5, 6, 7)."""
    job.target.always(CHECK, status(""))
    await fire(job)
    await job.advance(90)
    assert offsets(job.target.at(WORK)) == [0, 20, 45]
    assert offsets(job.target.at(CHECK)) == [4, 8, 12, 24, 28, 32, 49, 53, 57]
    assert [one for one in told(job) if one[0] != ""][:2] == [("failed", "timeout", "500")] * 2
    assert told(job)[-1][:2] == ("finalFailed", "timeout")
    run = await newest(job)
    assert (run["state"], run["error"], run["failureType"]) == ("terminated", "timeout", "timeout")


async def test_an_error_of_the_business_has_its_own_policy(job: World) -> None:
    """`error1` of a check: retried after 3 s and 6 s; a code of no policy ends it (SPEC sections 5, 6)."""
    job.target.answers(CHECK, *[status("failed", error="error1")] * 2, status("failed", error="error9"))
    await fire(job)
    await job.advance(60)
    assert offsets(job.target.at(CHECK)) == [4, 11, 21]
    assert offsets(job.target.at(WORK)) == [0, 7, 17]
    run = await newest(job)
    assert (run["state"], run["error"], run["failureType"]) == ("terminated", "error9", "business")
    assert told(job) == [
        ("failed", "error1", "200"),
        ("failed", "error1", "200"),
        ("failed", "error9", "200"),
        ("finalFailed", "error9", "200"),
    ]


async def test_policies_count_apart_and_never_beyond_five(job: World) -> None:
    """Each policy has its own counter; the sum is at most `maxRetries`, 5 by default (SPEC section 6)."""
    failed = status("failed", error="error1")
    job.target.answers(WORK, 500, 500, Reply(200, {"student": []}), Reply(200, {"student": []}))
    job.target.answers(CHECK, failed, failed, *[status("")] * 20)
    await fire(job)
    await job.advance(120)
    run = await newest(job)
    assert [one["error"] for one in run["attempts"]] == [
        "500",
        "500",
        "error1",
        "error1",
        "timeout",
        "timeout",
    ]
    assert (run["state"], run["error"]) == ("terminated", "timeout")


async def test_feedback_brings_the_next_check_forward(job: World) -> None:
    """With a `checkUrl` feedback is recorded, notified and followed by a check at once (SPEC section 5)."""
    await fire(job)
    await job.advance(1)
    url = job.target.seen[0].query["feedbackUrl"]
    report = {
        "status": "",
        "message": "half",
        "error": None,
        "progress": "20/60",
        "datetime": None,
        "data": 1,
    }
    data_of(await job.client.post(url.removeprefix(SERVED), json=report))
    await job.settle()
    assert offsets(job.target.at(CHECK)) == [1]
    assert told(job)[0] == ("", None, "200")
    assert job.target.at(TOLD)[0].json["response"]["progress"] == "20/60"
    run = await newest(job)
    assert len(run["attempts"][0]["feedback"]) == 1
    stale = await job.client.post(url.removeprefix(SERVED), json=report)
    assert stale.status_code == 409


async def test_a_notification_that_fails_is_tried_three_times_more(job: World) -> None:
    """Three retries, 20 s apart, under one key; the execution is not held up (SPEC section 7)."""
    job.target.always(TOLD, 500)
    await fire(job)
    await job.advance(5)
    assert (await newest(job))["state"] == "succeeded"
    await job.advance(100)
    by_id: dict[str, list[float]] = {}
    for one, moment in zip(job.target.at(TOLD), offsets(job.target.at(TOLD)), strict=True):
        assert one.headers["webhook-id"] == one.headers["idempotency-key"]
        by_id.setdefault(one.headers["webhook-id"], []).append(moment)
    assert [len(moments) for moments in by_id.values()] == [4, 4]
    for moments in by_id.values():
        assert [b - a for a, b in pairwise(moments)] == [20] * (len(moments) - 1)


async def test_it_can_be_paused_resumed_triggered_and_destroyed(job: World) -> None:
    """`active` 0 takes it offline, 1 starts it anew; a trigger runs it; DELETE ends it (SPEC section 10)."""
    data_of(await job.client.put("/jobs/20220125?active=0"))
    await fire(job)
    assert job.target.seen == []
    triggered = data_of(await job.client.post("/jobs/20220125/trigger", json={"any": "map"}))
    await job.advance(4)
    assert (await job.ended(triggered["executionId"]))["triggeredBy"] == "manual"
    assert data_of(await job.client.put("/jobs/20220125", json={"active": 1}))["missed"] == 1
    await fire(job)
    assert len(job.target.at(WORK)) == 2
    await job.advance(4)
    data_of(await job.client.delete("/job/20220125"))
    seen = len(job.target.seen)
    await fire(job)
    assert len(job.target.seen) == seen
    assert (await job.client.get("/jobs/20220125")).status_code == 404


async def test_an_update_replaces_it(job: World) -> None:
    """`/update` reschedules; counters go on (SPEC section 10)."""
    await fire(job)
    await job.advance(10)
    changed = json.loads(json.dumps(example()).replace("0 0/5 * * * ?", "30 * * * * ?"))
    data = data_of(await job.client.post("/jobs/20220125/update", json=changed))
    assert (data["revision"], data["nextFireTime"]) == (2, "2026-01-01T00:05:30.000Z")
    await job.advance(25)
    assert [one.headers["x-scheduling-execute-number"] for one in job.target.at(WORK)] == ["1", "2"]
    await newest(job)
    assert [one["revision"] for one in await executions(job.client)] == [2, 1]
