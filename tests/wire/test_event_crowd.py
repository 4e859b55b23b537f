"""A hundred readers of the event stream that never read, while many timers fire at once."""

import asyncio
from contextlib import closing

import pytest

from scheduler_service.telemetry.event_ring import KEPT_BYTES, KEPT_EVENTS
from tests.wire.event_stream import Frame, Stream, listening, open_silent
from tests.wire.service import World, data_of, definition, running

pytestmark = pytest.mark.timeout(180)

SLOW = 100
HERD = 120
FILLING = 3
"""Herds until no connection takes more: far less than the megabytes that the system takes of itself."""
CONNECTION_BYTES = 256 << 10
"""May wait in this process for one reader: what a connection holds, and one write of a hundred events."""


async def test_silent_readers_of_a_herd_take_bounded_memory_and_hold_up_nobody() -> None:
    """What they do not read waits once for all of them; who reads misses nothing, and every timer fires."""
    async with (
        running(limits={"event_readers": SLOW + 1}) as world,
        # On a busy machine the herd takes longer than those who read nothing are borne.
        listening(world, stall_seconds=3_600) as api,
    ):
        feed = world.service.events
        silent = [open_silent(api.url) for _ in range(SLOW)]

        async def all_follow() -> bool:
            return feed.readers == SLOW

        async def all_are_stuck() -> bool:
            stuck = [one for one in api.server.connections.open if one.unsent_bytes > 0]
            return len(stuck) == SLOW

        await world.until(all_follow)
        for second in range(10, 10 * FILLING + 1, 10):
            await fire(world, f"before-{second}", second)
        await world.until(all_are_stuck)
        async with api.stream() as stream:
            reading = asyncio.create_task(ends(stream))
            await fire(world, "herd", 10 * FILLING + 10)
            found = await reading
        held = [one.unsent_bytes for one in api.server.connections.open]
        assert (feed.ring.end - feed.ring.first, feed.ring.bytes) <= (KEPT_EVENTS, KEPT_BYTES)
        for one in silent:
            with closing(one):
                pass
    assert len(world.target.at("/run")) == (FILLING + 1) * HERD
    assert {one["jobId"] for one in found} == {f"herd-{number}" for number in range(HERD)}
    assert {one["latenessMs"] for one in found} == {0}
    assert max(held) < CONNECTION_BYTES


async def fire(world: World, name: str, second: int) -> None:
    """So many jobs are due at the same second, and end."""
    timer = {"dueTime": f"2026-01-01T00:00:{second:02}Z", "period": "0s"}
    jobs = [definition(jobId=f"{name}-{number}", timer=timer) for number in range(HERD)]
    items = data_of(await world.client.post("/jobs", json=jobs))["items"]
    assert {one["status"] for one in items} == {"created"}
    await world.advance(10)


async def ends(stream: Stream) -> list[Frame]:
    """The ends of the herd's executions, each once; a gap would be an event of its own."""
    found: list[Frame] = []
    while len(found) < HERD:
        frame = await stream.next()
        assert frame.event != "gap"
        if frame.event == "finalSucceed":
            found.append(frame)
    return found
