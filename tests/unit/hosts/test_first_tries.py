"""First tries of notifications are in the order of their events."""

import asyncio

import pytest

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.hosts.first_tries import FirstTries
from scheduler_service.hosts.tasks import Tasks

pytestmark = pytest.mark.anyio


class Tries:
    """First tries that end when `go_on` is set, and their order."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go_on = asyncio.Event()
        self.tasks = Tasks()
        self.first = FirstTries(tasks=self.tasks, attempt=self._attempt)

    async def _attempt(self, delivery_id: str) -> None:
        self.begun.append(delivery_id)
        await self.go_on.wait()

    async def end(self) -> list[str]:
        """All of them, in their order."""
        self.go_on.set()
        await self.tasks.wait_for_all()
        return self.begun


def delivery(execution: int, ordinal: int) -> Delivery:
    """One of an execution."""
    return Delivery(
        delivery_id=f"{execution}-{ordinal}",
        uid="uid",
        execute_number=execution,
        request_counts=1,
        ordinal=ordinal,
        event="succeed",
        job_id="job",
        tenant="default",
        request=OutboundRequest("POST", "http://told.test/", ()),
    )


async def test_those_of_one_execution_follow_each_other() -> None:
    """Another execution does not wait for them."""
    tries = Tries()
    for execution, ordinal in ((1, 0), (1, 1), (2, 0)):
        tries.first.add(delivery(execution, ordinal))
    await asyncio.sleep(0)
    assert tries.begun == ["1-0", "2-0"]
    assert await tries.end() == ["1-0", "2-0", "1-1"]
    tries.first.add(delivery(1, 2))
    assert (await tries.end())[-1] == "1-2"


async def test_what_is_held_follows_what_was_there_before() -> None:
    """Of its own execution; nothing is tried until it is released."""
    tries = Tries()
    tries.first.hold()
    for execution, ordinal in ((1, 2), (3, 0), (1, 3)):
        tries.first.add(delivery(execution, ordinal))
    await asyncio.sleep(0)
    assert (tries.begun, len(tries.tasks)) == ([], 0)
    tries.first.release([delivery(1, 0), delivery(2, 0), delivery(1, 1)])
    begun = await tries.end()
    assert [one for one in begun if one[0] == "1"] == ["1-0", "1-1", "1-2", "1-3"]
    assert sorted(begun) == ["1-0", "1-1", "1-2", "1-3", "2-0", "3-0"]


async def test_without_hold_they_are_added() -> None:
    """What another node left may come at any time."""
    tries = Tries()
    tries.first.add(delivery(1, 2))
    tries.first.release([delivery(1, 0), delivery(2, 0)])
    await asyncio.sleep(0)
    assert await tries.end() == ["1-2", "2-0", "1-0"]
