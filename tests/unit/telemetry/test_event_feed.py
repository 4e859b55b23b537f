"""Readers of the event stream: each at its own pace, told of what they lose, and nothing without them."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.telemetry.event_feed import (
    EVENT_BYTES,
    KEEP_SECONDS,
    LOOKED_AT,
    POSITION_BITS,
    UNKNOWN,
    EventFeed,
    EventReader,
    EventRing,
    FeedClosed,
    FeedFull,
    LocalEvents,
    PositionSeal,
    TakenEvents,
    read_event_id,
)
from scheduler_service.telemetry.event_source import Occurrences
from tests.rows import each_row

MOST = 5


class Timer:
    """What was to be done later, for the test to do."""

    def __init__(self, seconds: float, work: Callable[[], None]) -> None:
        self.seconds = seconds
        self.ring = work
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Scene:
    """A feed of a few events over the occurrences of a service."""

    def __init__(self) -> None:
        self.occurrences = Occurrences()
        self.timers: list[Timer] = []
        self.feed = EventFeed(
            source=LocalEvents(occurrences=self.occurrences, line="7"),
            most_readers=2,
            hidden=["clean"],
            ring=EventRing(most=MOST),
            later=self._later,
        )

    def happen(self, *numbers: int, job_id: str = "one") -> None:
        for number in numbers:
            kind = OccurrenceKind.STARTED
            self.occurrences.publish(
                Occurrence(kind=kind, at=1, tenant="default", job_id=job_id, execute_number=number)
            )

    def end_of_the_keeping(self) -> None:
        """The minutes after the last reader are over."""
        for timer in self.timers:
            if timer.seconds == KEEP_SECONDS and not timer.is_cancelled:
                timer.ring()

    def _later(self, seconds: float, work: Callable[[], None]) -> Any:
        self.timers.append(Timer(seconds, work))
        return self.timers[-1]


def numbers(taken: TakenEvents) -> list[int | None]:
    return [event.occurrence.execute_number for event in taken.events]


def take(reader: EventReader, most: int = 100) -> TakenEvents:
    return reader.take(lambda occurrence: True, most)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_reader_gets_what_comes_after_it(scene: Scene) -> None:
    """In order, at most as much at once as it asks for; system jobs are left out."""
    first = await scene.feed.follow()
    scene.happen(1, 2)
    scene.happen(9, job_id="clean")
    second = await scene.feed.follow()
    scene.happen(3)
    assert numbers(take(first, most=2)) == [1, 2]
    assert first.has_more
    assert numbers(take(first)) == [3]
    assert not first.has_more
    assert numbers(take(second)) == [3]
    assert place(scene, first) == place(scene, second)


async def test_a_slow_reader_is_told_how_many_it_has_lost(scene: Scene) -> None:
    """And goes on with the oldest that is kept; a fast one beside it loses nothing."""
    slow, fast = await scene.feed.follow(), await scene.feed.follow()
    for number in range(1, 13):
        scene.happen(number)
        assert numbers(take(fast)) == [number]
    assert take(slow) == TakenEvents(12 - MOST, [scene.feed.ring.at(index) for index in range(7, 12)])
    assert take(slow) == TakenEvents(0, [])


async def test_a_filter_moves_on_over_what_it_leaves_out(scene: Scene) -> None:
    """In bounded steps; the id is that of the last one looked at: who comes back reads nothing twice."""
    scene.feed.ring = EventRing()
    reader = await scene.feed.follow()
    begin = place(scene, reader)
    scene.happen(*range(LOOKED_AT + 1))
    assert reader.take(lambda occurrence: False, 10) == TakenEvents(0, [])
    assert (place(scene, reader), reader.has_more) == (begin + LOOKED_AT, True)
    assert reader.take(lambda occurrence: False, 10) == TakenEvents(0, [])
    assert not reader.has_more


async def test_what_happened_while_nobody_listened_is_a_gap(scene: Scene) -> None:
    """After the minutes nothing is made any more, and nobody knows what was missed."""
    assert not scene.occurrences.are_wanted
    reader = await scene.feed.follow()
    scene.happen(1)
    take(reader)
    reader.leave()
    scene.end_of_the_keeping()
    assert not scene.occurrences.are_wanted
    again = await scene.feed.follow(reader.id)
    scene.happen(2)
    taken = take(again)
    assert (taken.gap, numbers(taken)) == (UNKNOWN, [2])


@each_row("given", ["6-2", "8-2", "7-1", "7-90"])
async def test_an_id_of_another_start_or_of_no_event_is_a_gap(given: str) -> None:
    """What is kept follows it."""
    scene = Scene()
    await scene.feed.follow()
    scene.happen(1, 2, 3, 4, 5, 6)
    reader = await scene.feed.follow(read_event_id(given))
    taken = take(reader)
    assert (taken.gap, numbers(taken)) == (UNKNOWN, [2, 3, 4, 5, 6])


async def test_no_more_readers_than_allowed(scene: Scene) -> None:
    """A place is free again when one has gone."""
    first = await scene.feed.follow()
    await scene.feed.follow()
    with pytest.raises(FeedFull, match=r"limits\.event_readers"):
        await scene.feed.follow()
    first.leave()
    await scene.feed.follow()


async def test_a_tenant_with_most_readers_gives_way(scene: Scene) -> None:
    """To one that has fewer, until both have as many; its newest ends, the others read on."""
    first, second = await scene.feed.follow(tenant="greedy"), await scene.feed.follow(tenant="greedy")
    waiting = asyncio.ensure_future(second.changed())
    await asyncio.sleep(0)
    other = await scene.feed.follow(tenant="modest")
    assert await waiting
    assert [one.is_ended for one in (first, second, other)] == [False, True, False]
    assert scene.feed.readers == 2
    second.leave()
    assert scene.feed.readers == 2, "its place was given away"
    for tenant in ("greedy", "modest", "third"):
        with pytest.raises(FeedFull, match="tenants share"):
            await scene.feed.follow(tenant=tenant)
    other.leave()
    await scene.feed.follow(tenant="greedy")


async def test_readers_are_woken_together_and_not_by_each_event(scene: Scene) -> None:
    """One timer for all that happens within its time; who asks later waits for what comes then."""
    reader = await scene.feed.follow()
    waiting = asyncio.ensure_future(reader.changed())
    scene.happen(1, 2, 3)
    (timer,) = scene.timers
    await asyncio.sleep(0)
    assert not waiting.done()
    timer.ring()
    assert await waiting
    later = asyncio.ensure_future(reader.changed())
    await asyncio.sleep(0)
    assert not later.done()
    later.cancel()


async def test_the_end_wakes_all_and_lets_nobody_in(scene: Scene) -> None:
    """It waits for readers that go."""
    reader = await scene.feed.follow()

    async def read() -> None:
        await reader.changed()
        assert reader.is_ended
        reader.leave()

    reading = asyncio.ensure_future(read())
    await scene.feed.close()
    assert reading.done()
    with pytest.raises(FeedClosed):
        await scene.feed.follow()
    assert not scene.occurrences.are_wanted


async def test_nothing_is_looked_at_that_was_not_looked_ahead_at(scene: Scene) -> None:
    """What comes between the two waits for the next time; what is passed over is counted."""
    reader = await scene.feed.follow()
    scene.happen(1, 2)
    end, ahead = reader.look_ahead()
    scene.happen(3)
    assert [one.execute_number for one in ahead] == [1, 2]
    assert numbers(reader.take(lambda occurrence: True, 100, end)) == [1, 2]
    end, ahead = reader.look_ahead()
    assert [one.execute_number for one in ahead] == [3]
    scene.happen(4, 5, 6, 7, 8)
    assert reader.skip(end) == 1
    assert take(reader).gap == 0
    end, _ = reader.look_ahead()
    scene.happen(*range(9, 20))
    taken = reader.take(lambda occurrence: True, 100, end)
    assert (taken.gap, numbers(taken)) == (6, [])
    assert numbers(take(reader)) == [15, 16, 17, 18, 19]


def occurrence(text: str = "") -> Occurrence:
    return Occurrence(kind=OccurrenceKind.STARTED, at=1, message=text)


def positions(ring: EventRing) -> list[int]:
    return [ring.at(index).position for index in range(ring.first, ring.end)]


def test_it_is_bounded_in_bytes() -> None:
    """Long texts count: few of them are kept, and the count comes back to nothing."""
    ring = EventRing(most_bytes=10 * EVENT_BYTES)
    ring.begin(0)
    for position in range(1, 1_000):
        ring.add(position, occurrence("x" * EVENT_BYTES))
        assert ring.bytes <= 10 * EVENT_BYTES
    assert positions(ring) == [997, 998, 999]
    ring.begin(1_000)
    assert (positions(ring), ring.bytes) == ([], 0)


def place(scene: Scene, reader: EventReader) -> int:
    """The position in the id of a reader."""
    return scene.feed.seal.open(reader.id.number)


def test_ids_say_neither_how_much_happened_nor_whether_anything_did() -> None:
    """Of the same position they differ, as those of others do (SPEC section 14)."""
    seal = PositionSeal()
    steady = {seal.close(7) for _ in range(500)}
    assert len(steady) > 450
    rising = [seal.close(position) for position in range(500)]
    assert 150 < sum(one < other for one, other in itertools.pairwise(rising)) < 350
    assert len({PositionSeal().open(rising[0]) for _ in range(20)}) > 1


@given(st.integers(0, 2**POSITION_BITS - 1), st.binary(min_size=32, max_size=32))
def test_an_id_is_read_by_those_who_have_its_key(position: int, key: bytes) -> None:
    """It has at most 18 digits, as ids always had."""
    number = PositionSeal(key).close(position)
    assert PositionSeal(key).open(number) == position
    assert read_event_id(f"0-{number}").number == number
