"""A lane: what is handed in together is served together, in order, and nothing of it is left behind."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from scheduler_service.persistence.common.write_thread import MOST_WAITING, WriteThread
from scheduler_service.ports.errors import StoreUnavailable

pytestmark = pytest.mark.anyio


def make_lane(serve: Callable[[list[int]], list[object]], size: int = 10) -> WriteThread[int]:
    return WriteThread(name="lane", serve=serve, size=size, loop=asyncio.get_running_loop())


def noting(groups: list[list[int]]) -> Callable[[list[int]], list[object]]:
    """Serves by answering each item with itself, and notes what came together."""

    def serve(items: list[int]) -> list[object]:
        groups.append(items)
        return list(items)

    return serve


async def test_one_round_is_one_group() -> None:
    """A first item does not run ahead of those that come with it."""
    groups: list[list[int]] = []
    lane = make_lane(noting(groups))
    assert await asyncio.gather(*[lane.put(item) for item in range(8)]) == list(range(8))
    assert groups == [list(range(8))]
    await lane.close()


async def test_groups_are_bounded() -> None:
    """At most `size` items are served together, but what was handed in as one stays one."""
    groups: list[list[int]] = []
    lane = make_lane(noting(groups), size=3)
    some = [lane.put(0), lane.put_all([1, 2, 3, 4]), *[lane.put(item) for item in range(5, 10)]]
    await asyncio.gather(*some)
    assert groups == [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9]]
    await lane.close()


async def test_patient_items_wait_for_others() -> None:
    """Those of several rounds are served together: when one comes that is not patient, or by and by."""
    groups: list[list[int]] = []
    lane = make_lane(noting(groups))
    first = lane.put(0, patient=True)
    await asyncio.sleep(0)
    second = lane.put(1, patient=True)
    await asyncio.sleep(0)
    await asyncio.gather(lane.put(2), first, second)
    assert groups == [[0, 1, 2]]
    await asyncio.gather(lane.put(3, patient=True), lane.put(4, patient=True))
    assert groups[1:] == [[3, 4]]
    await asyncio.gather(lane.put(5), lane.put(6, patient=True))
    assert groups[2:] == [[5, 6]]
    await lane.close()


async def test_the_patience_of_many_ends_at_once() -> None:
    """They are a group by themselves: the timer of the first is not waited for."""
    groups: list[list[int]] = []
    lane = make_lane(noting(groups), size=10 * MOST_WAITING)
    some = [lane.put(item, patient=True) for item in range(MOST_WAITING + 1)]
    assert lane._later is None
    await asyncio.gather(*some)
    assert groups == [list(range(MOST_WAITING + 1))]
    await lane.close()


async def test_a_close_waits_for_nobodys_patience() -> None:
    """What was patient is served before the end."""
    groups: list[list[int]] = []
    lane = make_lane(noting(groups))
    before = lane.put(1, patient=True)
    await lane.close()
    assert await before == 1


async def test_a_close_serves_what_was_handed_in() -> None:
    """What came in the same round is not lost; what comes later is refused."""
    groups: list[list[int]] = []
    lane = make_lane(noting(groups))
    before = lane.put(1)
    closing = asyncio.create_task(lane.close())
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable):
        await lane.put(2)
    await closing
    assert await before == 1
    assert groups == [[1]]


async def test_a_lane_rests_when_nothing_comes() -> None:
    """It rests until it has nothing more to do, and again after the next item."""
    rests: list[bool] = []
    rested = threading.Semaphore(0)

    def rest() -> bool:
        rests.append(len(rests) % 3 < 2)
        rested.release()
        return rests[-1]

    lane: WriteThread[int] = WriteThread(
        name="lane", serve=lambda items: list(items), size=10,
        loop=asyncio.get_running_loop(), rest=rest, pause=0.0,
    )  # fmt: skip
    for turn_of in (1, 2):
        assert await lane.put(7) == 7
        for _ in range(3):
            assert await asyncio.to_thread(rested.acquire, timeout=10)
        assert rests == [True, True, False] * turn_of
    await lane.close()
