"""`GET /events`: what happens, as it happens, over real sockets (SPEC section 14)."""

import asyncio
from datetime import UTC, datetime

import httpx
import pytest

from client_sdk.models import answers
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from tests.rows import each_row
from tests.wire.event_stream import PATIENCE, Frame, Listening, listening
from tests.wire.service import World, definition, running

pytestmark = pytest.mark.timeout(120)


def kinds(frames: list[Frame]) -> list[str | None]:
    return [frame.event for frame in frames]


def pointers(answer: httpx.Response) -> list[tuple[str, str]]:
    return [(error["pointer"], error["code"]) for error in answer.json()["errors"]]


async def test_a_job_and_its_execution_are_told_from_begin_to_end() -> None:
    """Created, started, ended, destroyed: each with an id, its kind and what belongs to it."""
    async with running() as world, listening(world) as api, api.stream() as stream:
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        assert stream.answer.headers["cache-control"] == "no-store"
        await world.client.post("/jobs/one", json=definition())
        await world.client.post("/jobs/one/trigger")
        frames = await stream.until("finalSucceed")
        await world.client.put("/jobs/one?active=0")
        await world.client.put("/jobs/one?active=1")
        await world.client.delete("/jobs/one")
        frames += await stream.until("jobDestroyed")
    assert kinds(frames) == [
        "jobCreated",
        "started",
        "finalSucceed",
        "jobPaused",
        "jobResumed",
        "jobDestroyed",
    ]
    assert len({frame.id for frame in frames}) == len(frames)
    ended = answers.Event.model_validate({**frames[2], "id": frames[2].id})
    assert (ended.kind, ended.job_id, ended.state, ended.count) == ("finalSucceed", "one", "succeeded", 1)
    assert ended.execute_number == 1
    assert ended.execution_id is not None
    assert ended.at == datetime(2026, 1, 1, tzinfo=UTC)


async def test_filters_let_through_what_they_name() -> None:
    """Of several values any; a stream of one execution has its events alone."""
    async with running() as world, listening(world) as api:
        async with api.stream("?jobId=two&jobId=three&event=started&event=jobCreated") as stream:
            for name in ("one", "two"):
                await world.client.post(f"/jobs/{name}", json=definition())
                await world.client.post(f"/jobs/{name}/trigger")
            assert [(one.event, one["jobId"]) for one in await stream.until("started")] == [
                ("jobCreated", "two"),
                ("started", "two"),
            ]
        found = (await world.client.get("/executions?jobId=two")).json()["data"]["items"][0]
        number = int(found["executionId"].rpartition("-")[2]) + 1
        wanted = f"{found['executionId'].rpartition('-')[0]}-{number}"
        async with api.stream(f"?executionId={wanted}") as stream:
            await world.client.post("/jobs/one/trigger")
            await world.client.post("/jobs/two/trigger")
            frames = await stream.until("finalSucceed")
            assert {one["executionId"] for one in frames} == {wanted}


async def test_what_sends_alerts_is_neither_told_nor_counted() -> None:
    """A job that fails is told and counted once, however many alerts are sent for it."""
    hook = {"url": "service://jobswork/hook", "on": ["finalFailed"], "minIntervalSeconds": 0}
    async with running(alerts=[hook]) as world, listening(world) as api, api.stream() as stream:
        world.target.always("/run", 500)
        await world.client.post("/jobs/one", json=definition())
        await stream.until("jobCreated")
        await world.client.post("/jobs/one/trigger")
        await stream.until("finalFailed")
        while not world.target.at("/hook"):
            await world.advance(1)
        await world.client.post("/jobs/two", json=definition())
        assert kinds(await stream.until("jobCreated")) == ["jobCreated"]
        assert (await world.client.get("/statistics")).json()["data"]["total"]["executions"] == 1


async def test_who_comes_back_misses_nothing() -> None:
    """By the header, by the query, and by an id of the beginning; the header counts more than the query."""
    async with running() as world, listening(world) as api:
        async with api.stream() as stream:
            await world.client.post("/jobs/one", json=definition())
            first = await stream.next()
        await world.client.post("/jobs/two", json=definition())
        await world.client.post("/jobs/three", json=definition())
        async with api.stream(headers={"Last-Event-ID": str(first.id)}) as stream:
            second, third = await stream.next(), await stream.next()
            assert (second["jobId"], third["jobId"]) == ("two", "three")
        async with api.stream(f"?lastEventId={second.id}") as stream:
            assert (await stream.next())["jobId"] == "three"
        header = {"Last-Event-ID": str(second.id)}
        async with api.stream(f"?lastEventId={first.id}", headers=header) as stream:
            assert (await stream.next())["jobId"] == "three"


@each_row("unknown", ["0-1", "1-999999999", "zzzz-3"])
async def test_an_id_that_is_not_kept_begins_with_a_gap(unknown: str) -> None:
    """Of another start, or of the future: nobody knows what was missed, and what is kept follows."""
    async with running() as world, listening(world) as api, api.stream() as other:
        await world.client.post("/jobs/one", json=definition())
        await other.next()
        async with api.stream(f"?lastEventId={unknown}") as stream:
            gap, kept = await stream.next(), await stream.next()
            assert (gap.event, gap.id, gap.get("count")) == ("gap", None, None)
            assert (kept.event, kept["jobId"]) == ("jobCreated", "one")


@each_row(
    ("query", "headers", "status", "pointer"),
    [
        ("?event=nothing", {}, 422, ("/event", "invalid")),
        ("?colour=red", {}, 422, ("/colour", "unknown_parameter")),
        ("?lastEventId=x", {}, 422, ("/lastEventId", "invalid")),
        ("", {"Last-Event-ID": "seven"}, 422, ("/Last-Event-ID", "invalid")),
        ("", {"Last-Event-ID": "7" * 70}, 422, ("/Last-Event-ID", "too_long")),
        ("", {"Accept": "application/json"}, 406, ("/Accept", "media_type")),
    ],
)
async def test_what_is_wrong_is_refused_with_its_place(
    world: World, query: str, headers: dict[str, str], status: int, pointer: tuple[str, str]
) -> None:
    """And no reader is left behind."""
    answer = await world.client.get(f"/events{query}", headers=headers)
    assert (answer.status_code, pointers(answer)) == (status, [pointer])


async def test_labels_choose_jobs() -> None:
    """All must fit, as the job has them when its event is read; what is about no job is left out."""
    query = "?label=team:billing&label=tier:1&event=jobUpdated&event=finalSucceed&event=storeLost"
    async with running() as world, listening(world) as api, api.stream(query) as stream:
        labelled = {"team": "billing", "tier": "1", "more": "x"}
        for name, labels in (("one", labelled), ("two", {"team": "billing"}), ("three", {})):
            await world.client.post(f"/jobs/{name}", json=definition(labels=labels))
        for name in ("three", "two", "one"):
            await world.client.post(f"/jobs/{name}/trigger")
        assert (await stream.next())["jobId"] == "one"
        lost = Occurrence(kind=OccurrenceKind.STORE_LOST, at=world.clock.now().wall)
        world.service.telemetry.occurrences.publish(lost)
        await world.client.post("/jobs/one/update", json=definition(labels={}))
        await world.client.post("/jobs/one/trigger")
        await world.client.post("/jobs/two/update", json=definition(labels=labelled))
        frame = await stream.next()
        assert (frame.event, frame["jobId"]) == ("jobUpdated", "two")


async def speak(api: Listening, *requests: bytes) -> bytes:
    """What one connection is answered up to its end; each request is sent when an answer has begun."""
    host, port = api.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(PATIENCE):
        found = b""
        for request in requests:
            writer.write(request)
            found += await reader.readuntil(b"\r\n\r\n")
        found += await reader.read()
    writer.close()
    return found


async def test_head_ends_at_once_on_a_socket() -> None:
    """Head alone, of no said length, no place taken; the next request of the connection is answered."""
    async with running(limits={"event_readers": 1}) as world, listening(world) as api, api.stream():
        head = b"HEAD /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        last = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        answer = await speak(api, head, head, last)
        first, second, third, body = answer.split(b"\r\n\r\n")
        for one in (first, second):
            assert one.startswith(b"HTTP/1.1 200 OK")
            assert b"content-type: text/event-stream" in one
            assert b"content-length" not in one
        assert third.startswith(b"HTTP/1.1 200 OK")
        assert b'"data"' in body


async def test_a_caller_of_http_1_0_gets_a_stream_that_ends_with_its_connection() -> None:
    """Without chunks, which it does not know."""
    async with running() as world, listening(world) as api:
        feed = world.service.events
        reading = asyncio.create_task(speak(api, b"GET /events HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n"))

        async def follows() -> bool:
            return feed.readers == 1

        await world.until(follows)
        await world.client.post("/jobs/one", json=definition())

        async def has_read() -> bool:
            return feed.ring.end > feed.ring.first

        await world.until(has_read)
        await feed.close()
        head, _, body = (await reading).partition(b"\r\n\r\n")
        assert b"connection: close" in head
        assert b"chunked" not in head
        frames = body.decode().split("\n\n")
        assert frames[0].startswith("retry: 2000\nid: ")
        assert frames[1].splitlines()[1] == "event: jobCreated"
        assert frames[2:] == [""]


async def test_more_readers_than_allowed_are_told_to_come_later() -> None:
    """429 with Retry-After; a place that is free again is given."""
    async with running(limits={"event_readers": 1}) as world, listening(world) as api:
        async with api.stream(), api.stream() as second:
            assert second.answer.status_code == 429
            assert second.answer.headers["retry-after"] == "10"
            assert "limits.event_readers" in second.answer.text

        async def follow() -> bool:
            async with api.stream() as stream:
                return stream.answer.status_code == 200

        assert await world.until(follow)


async def test_an_open_stream_does_not_hold_up_the_end() -> None:
    """It ends by itself with the drain, after what happened in it; later ones are refused."""
    async with running() as world, listening(world) as api, api.stream() as stream:
        await world.client.post("/jobs/one", json=definition())
        await world.stop()
        assert kinds(await stream.rest()) == ["jobCreated"]
        refused = await world.client.get("/events")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


async def test_a_stream_that_nobody_reads_does_not_hold_up_the_end() -> None:
    """It is cut, long before the drain is over."""
    async with running() as world, listening(world) as api:
        host, port = api.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), limit=1)
        writer.write(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        events, number = world.service.events, 0

        async def is_stuck() -> bool:
            nonlocal number
            number += 1
            events.add(1_000 + number, Occurrence(kind=OccurrenceKind.STARTED, at=1, message="x" * 10_000))
            return any(one.unsent_bytes for one in api.server.connections.open)

        await world.until(is_stuck)
        await world.stop()
        async with asyncio.timeout(60):
            await api.server.end(api.serving, seconds=600)
        writer.close()
