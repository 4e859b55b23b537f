"""Turns on much are taken few at a time, each from its decision until it is durable."""

import asyncio
from collections.abc import Sequence

import pytest

from scheduler_service.domain.document import Document
from scheduler_service.domain.events import AlarmRang, CallEnded, Event, Replay, Triggered
from scheduler_service.domain.wire import Answer, CallKind, Token
from scheduler_service.hosts.host_parts import DEFAULT_LIMITS
from scheduler_service.hosts.large_turns import ANY_BYTES, ROOM_BYTES, LargeTurns
from scheduler_service.hosts.open_bytes import OpenBytes, weigh_open
from scheduler_service.language.values import LARGE_BYTES
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.hosts.house import CORE
from tests.unit.hosts.memory_store import Fate
from tests.unit.hosts.turn_rig import Bench

pytestmark = pytest.mark.anyio

URL = "http://target.test/run"
TOKEN = Token("uid", 1, 1, CallKind.STEP, 0)
BODY = b"x" * ANY_BYTES


class Line:
    """Turns that enter in their order and stay until they are let go."""

    def __init__(self, events: Sequence[Event], document: Document | None = None) -> None:
        self.turns = LargeTurns(core=CORE, open_bytes=OpenBytes(most=DEFAULT_LIMITS.open_bytes))
        self.inside: list[int] = []
        self._ends = [asyncio.Event() for _ in events]
        self._tasks = [
            asyncio.ensure_future(self._take(place, event, document)) for place, event in enumerate(events)
        ]

    async def _take(self, place: int, event: Event, document: Document | None) -> None:
        async with self.turns.enter(document, event):
            self.inside.append(place)
            await self._ends[place].wait()

    async def leave(self, place: int) -> None:
        """That one has ended."""
        self._ends[place].set()
        await self._tasks[place]
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("event", "most"),
    [
        (AlarmRang(), ROOM_BYTES // ANY_BYTES),
        (Triggered(params=BODY), ROOM_BYTES // (3 * ANY_BYTES)),
        (Triggered(replay=Replay(1, 1, (BODY,))), ROOM_BYTES // (3 * ANY_BYTES)),
        (CallEnded(TOKEN, Answer(200, body=BODY)), ROOM_BYTES // (3 * ANY_BYTES)),
        (Triggered(params=16 * BODY), 1),
    ],
)
async def test_so_many_are_taken_at_a_time(event: Event, most: int) -> None:
    """By what their events bring, in their order; one that is larger than the room is taken alone."""
    line = Line([event] * 20)
    await asyncio.sleep(0)
    for place in range(20):
        assert line.inside == list(range(min(most + place, 20)))
        await line.leave(place)


async def test_what_a_job_keeps_counts() -> None:
    """A ring of such a job writes all of it again."""
    bench = Bench()
    await bench.create(request=[{"url": URL}, {"url": URL, "body": "${responses[0]}|json"}])
    await bench.run(Triggered())
    await bench.answer(body=b'"%s"' % (b"x" * 24 * LARGE_BYTES))
    document = bench.cached.document
    assert weigh_open(document) > ANY_BYTES
    line = Line([AlarmRang()] * 20, document)
    await asyncio.sleep(0)
    assert len(line.inside) == ROOM_BYTES // (ANY_BYTES + weigh_open(document))


async def test_a_turn_that_fails_makes_way_for_the_next_one() -> None:
    """The store is away; nobody waits for ever."""
    bench = Bench()
    await bench.create(qos=1)
    event = Triggered(params=b'"%s"' % (b"x" * LARGE_BYTES))
    for _ in range(2 * ROOM_BYTES // ANY_BYTES):
        bench.store.fates.append(Fate.REFUSED)
        with pytest.raises(StoreUnavailable):
            await bench.run(event)
    await bench.run(event)
    assert len(bench.calls()) == 1
