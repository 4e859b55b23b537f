"""Answers that come while calls are sent again wait, but not for ever, and none is forgotten."""

import asyncio

import pytest

from scheduler_service.domain.replies import Reply, Taken
from scheduler_service.domain.turn_events import AlarmRang, CallEnded, Event
from scheduler_service.domain.wire import Answer, CallKind, Fault, FaultKind, Outcome, Token
from scheduler_service.hosts.event_redelivery import (
    HELD_BYTES,
    LARGEST_HELD_BYTES,
    LET_GO_AT_ONCE,
    MOST_HELD_MS,
    AnswerLine,
    Redelivery,
)
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio
ROUNDS = 50


class Desk:
    """A line, and the jobs that took something, in order."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.taken: list[str] = []
        self.line = AnswerLine(clock=self.clock)
        self._redelivery = Redelivery(take=self._take, clock=self.clock, line=self.line)
        self.tasks: list[asyncio.Task[None]] = []

    async def _take(self, job_id: str, command: Command) -> Reply:
        self.taken.append(job_id)
        return Taken()

    def deliver(self, job_id: str, event: Event) -> None:
        self.tasks.append(asyncio.create_task(self._redelivery.deliver(job_id, event)))

    def answer(self, job_id: str, outcome: Outcome | None = None) -> None:
        self.deliver(job_id, CallEnded(Token(job_id, 1, 1, CallKind.STEP, 0), outcome or Answer(200)))

    async def settle(self) -> None:
        for _ in range(ROUNDS):
            await asyncio.sleep(0)


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_answers_wait_until_the_calls_are_out(desk: Desk) -> None:
    """Then they come in their order, a few in each round of the loop; other events wait for nothing."""
    names = [f"job-{number:03}" for number in range(3 * LET_GO_AT_ONCE)]
    with desk.line.held():
        for name in names:
            desk.answer(name)
        desk.answer("none", Fault(FaultKind.TIMEOUT, "late", 5))
        desk.deliver("ringing", AlarmRang())
        await desk.settle()
        assert desk.taken == ["ringing"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(desk.taken) <= 1 + 2 * LET_GO_AT_ONCE
    await desk.settle()
    assert desk.taken == ["ringing", *names, "none"]
    desk.answer("later")
    await desk.settle()
    assert desk.taken[-1] == "later"
    await asyncio.gather(*desk.tasks)


async def test_they_do_not_wait_for_ever(desk: Desk) -> None:
    """After five seconds those that wait are delivered, and those that come then as well."""
    with desk.line.held():
        desk.answer("early")
        await desk.settle()
        desk.clock.advance(MOST_HELD_MS - 1)
        await desk.settle()
        assert desk.taken == []
        desk.clock.advance(1)
        desk.answer("late")
        await desk.settle()
        assert sorted(desk.taken) == ["early", "late"]


async def test_what_is_large_does_not_wait(desk: Desk) -> None:
    """Neither one answer of more than 64 KiB nor more than 16 MiB of them: memory is bounded."""
    full = HELD_BYTES // LARGEST_HELD_BYTES
    with desk.line.held():
        desk.answer("large", Answer(200, body=bytes(LARGEST_HELD_BYTES + 1)))
        for number in range(full):
            desk.answer(f"held-{number}", Answer(200, body=bytes(LARGEST_HELD_BYTES)))
        desk.answer("beyond", Answer(200, body=b"x"))
        desk.answer("empty")
        await desk.settle()
        assert desk.taken == ["large", "beyond"]
    await asyncio.gather(*desk.tasks)
    assert len(desk.taken) == full + 3


async def test_one_that_is_cancelled_keeps_no_other(desk: Desk) -> None:
    """As the death of the process does to each."""
    with desk.line.held():
        desk.answer("first")
        desk.answer("second")
        await desk.settle()
        desk.tasks[0].cancel()
    await desk.settle()
    assert desk.taken == ["second"]
    assert desk.tasks[0].cancelled()


async def test_what_is_not_taken_comes_again_until_its_lease_ends() -> None:
    """With growing pauses, none longer than five seconds; the last error is raised."""
    clock, tries = ManualClock(), list[int]()

    async def refuse(job_id: str, command: Command) -> Reply:
        tries.append(clock.now().steady)
        raise StoreUnavailable("the store is away")

    began = clock.now().steady
    task = asyncio.create_task(Redelivery(take=refuse, clock=clock, lease=20_000).deliver("job", AlarmRang()))
    while not task.done():
        for _ in range(5):
            await asyncio.sleep(0)
        clock.advance(100)
    with pytest.raises(StoreUnavailable):
        await task
    passed = [0, 100, 300, 700, 1_500, 3_100, 6_300, 11_300, 16_300]
    assert [moment - began for moment in tries] == passed
