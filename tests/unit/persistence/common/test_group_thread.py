"""The write thread: what is put in together is served together, in order, and nothing of it is lost."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest

from scheduler_service.persistence.common.group_thread import (
    ANSWERED_AT_ONCE,
    MAX_WAITING,
    GroupThread,
    Weights,
)
from scheduler_service.ports.errors import StoreUnavailable

pytestmark = pytest.mark.anyio
Groups = list[list[int]]


def make_thread(
    serve: Callable[[list[int]], list[object]], size: int = 10, wait_seconds: float = 0.004
) -> GroupThread[int]:
    loop = asyncio.get_running_loop()
    return GroupThread(name="writer", serve=serve, size=size, loop=loop, wait_seconds=wait_seconds)


def noting(groups: Groups) -> Callable[[list[int]], list[object]]:
    """Answers each item with itself, and notes what came together."""

    def serve(items: list[int]) -> list[object]:
        groups.append(items)
        return list(items)

    return serve


@pytest.fixture
def groups() -> Groups:
    """What came together."""
    return []


@pytest.fixture
async def thread(groups: Groups) -> AsyncIterator[GroupThread[int]]:
    made = make_thread(noting(groups))
    yield made
    await made.close()


@pytest.fixture
async def weighing(groups: Groups) -> AsyncIterator[GroupThread[int]]:
    """Items weigh what they are; over 10 they are large, and a group takes about 50 of those."""
    loop = asyncio.get_running_loop()
    made = GroupThread(name="writer", serve=noting(groups), size=10, loop=loop, weights=Weights(abs, 10, 50))
    yield made
    await made.close()


async def test_one_round_is_one_group(groups: Groups, thread: GroupThread[int]) -> None:
    """A first item does not run ahead of those that come with it."""
    assert await asyncio.gather(*[thread.put(item) for item in range(8)]) == list(range(8))
    assert groups == [list(range(8))]


async def test_a_defect_is_told_to_all_who_wait_and_ends_no_thread() -> None:
    """A thread that had ended would answer nobody any more, and a close would never return."""

    def serve(items: list[int]) -> list[object]:
        if 7 in items:
            raise RecursionError
        return list(items)

    thread = make_thread(serve)
    ends = await asyncio.gather(thread.put(6), thread.put(7), return_exceptions=True)
    assert [type(one) for one in ends] == [RecursionError, RecursionError]
    assert await thread.put(8) == 8
    await thread.close()


async def test_groups_are_bounded(groups: Groups) -> None:
    """At most `size` items are served together, but what was handed in as one stays one."""
    thread = make_thread(noting(groups), size=3)
    some = [
        thread.put(0),
        thread.put(1, 2, 3, 4, is_alone=False),
        *[thread.put(item) for item in range(5, 10)],
    ]
    await asyncio.gather(*some)
    assert groups == [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9]]
    await thread.close()


async def test_owners_take_turns_where_many_items_wait(groups: Groups) -> None:
    """However many of one came before, and each in its own order."""
    began, may_go_on = threading.Event(), threading.Event()

    def serve(items: list[int]) -> list[object]:
        groups.append(items)
        began.set()
        assert may_go_on.wait(30)
        return list(items)

    loop = asyncio.get_running_loop()
    thread: GroupThread[int] = GroupThread(
        name="writer", serve=serve, size=1_000, loop=loop, owner=lambda item: str(item // 10_000)
    )
    some = [thread.put(0)]
    await asyncio.sleep(0)
    assert began.wait(30), "the loop stands still meanwhile"
    some += [thread.put(item) for item in (*range(1, 2_000), 10_000, 10_001, 20_000)]
    await asyncio.sleep(0)
    may_go_on.set()
    await asyncio.gather(*some)
    assert groups[1][:5] == [1, 10_000, 20_000, 2, 10_001]
    assert [item for group in groups for item in group if item < 10_000] == list(range(2_000))
    await thread.close()


async def test_what_one_owner_has_in_line_waits_its_turn_when_another_comes(groups: Groups) -> None:
    """In its order, also what was fetched while it had the line alone."""
    began, may_go_on = threading.Semaphore(0), threading.Semaphore(0)

    def serve(items: list[int]) -> list[object]:
        groups.append(items)
        began.release()
        assert may_go_on.acquire(timeout=30)
        return list(items)

    loop = asyncio.get_running_loop()
    thread: GroupThread[int] = GroupThread(
        name="writer", serve=serve, size=1_000, loop=loop, owner=lambda item: str(item // 10_000)
    )
    some = [thread.put(0)]
    for items in (range(1, 1_500), (1_500, 10_000, 1_501)):
        await asyncio.sleep(0)
        assert began.acquire(timeout=30), "the loop stands still meanwhile"
        some += [thread.put(item) for item in items]
        await asyncio.sleep(0)
        may_go_on.release()
    may_go_on.release(100)
    await asyncio.gather(*some)
    assert groups[1] == list(range(1, 1_001))
    assert groups[2][:3] == [1_001, 10_000, 1_002]
    assert [item for group in groups for item in group if item < 10_000] == list(range(1_502))
    await thread.close()


async def test_the_loop_comes_between_the_outcomes_of_a_large_group() -> None:
    """Each of them lets a turn go on; other things need not wait for hundreds of turns."""
    thread = make_thread(list, size=10 * ANSWERED_AT_ONCE)
    some = [thread.put(item) for item in range(3 * ANSWERED_AT_ONCE + 1)]
    done = [0]
    while done[-1] < len(some):
        await asyncio.sleep(0)
        done.append(sum(future.done() for future in some))
    assert max(later - earlier for earlier, later in pairwise(done)) == ANSWERED_AT_ONCE
    assert [future.result() for future in some] == list(range(len(some)))
    await thread.close()


async def test_the_loop_comes_between_the_outcomes_of_two_large_groups(groups: Groups) -> None:
    """The second one waits for the end of the first, and adds nothing to what a round has of it."""
    both = threading.Event()

    def serve(items: list[int]) -> list[object]:
        groups.append(items)
        if len(groups) == 2:
            both.set()
        return list(items)

    size = 4 * ANSWERED_AT_ONCE + 1
    thread = make_thread(serve, size=size)
    some = [thread.put(item) for item in range(2 * size)]
    await asyncio.sleep(0)
    assert both.wait(10), "the loop stands still meanwhile"
    done = [sum(future.done() for future in some)]
    while done[-1] < len(some):
        await asyncio.sleep(0)
        done.append(sum(future.done() for future in some))
    assert [len(group) for group in groups] == [size, size]
    assert max(later - earlier for earlier, later in pairwise(done)) < 2 * ANSWERED_AT_ONCE
    await thread.close()


async def test_a_close_waits_for_the_last_outcome_of_a_large_group() -> None:
    """Its end comes after all of them."""
    thread = make_thread(list, size=10 * ANSWERED_AT_ONCE)
    some = [thread.put(item) for item in range(5 * ANSWERED_AT_ONCE)]
    await thread.close()
    assert all(future.done() for future in some)


async def test_items_that_may_wait_do_wait_for_others(groups: Groups, thread: GroupThread[int]) -> None:
    """Those of several rounds are served together: when one comes that may not wait, or when the time is
    up."""
    first = thread.put(0, may_wait=True)
    await asyncio.sleep(0)
    second = thread.put(1, may_wait=True)
    await asyncio.sleep(0)
    await asyncio.gather(thread.put(2), first, second)
    assert groups == [[0, 1, 2]]
    await asyncio.gather(thread.put(3, may_wait=True), thread.put(4, may_wait=True))
    assert groups[1:] == [[3, 4]]
    await asyncio.gather(thread.put(5), thread.put(6, may_wait=True))
    assert groups[2:] == [[5, 6]]


async def test_many_that_may_wait_are_handed_over_at_once(groups: Groups) -> None:
    """They are a group by themselves: the timer of the first is not waited for."""
    thread = make_thread(noting(groups), size=10 * MAX_WAITING, wait_seconds=600.0)
    some = [thread.put(item, may_wait=True) for item in range(MAX_WAITING + 1)]
    async with asyncio.timeout(10):
        await asyncio.gather(*some)
    assert groups == [list(range(MAX_WAITING + 1))]
    await thread.close()


async def test_a_close_does_not_wait_for_others(groups: Groups, thread: GroupThread[int]) -> None:
    """What may wait is served before the end."""
    before = thread.put(1, may_wait=True)
    await thread.close()
    assert await before == 1


async def test_a_close_serves_what_was_handed_in(groups: Groups, thread: GroupThread[int]) -> None:
    """What came in the same round is not lost; what comes later is refused."""
    before = thread.put(1)
    closing = asyncio.create_task(thread.close())
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable):
        await thread.put(2)
    await closing
    assert await before == 1
    assert groups == [[1]]


async def test_small_ones_pass_large_ones(groups: Groups, weighing: GroupThread[int]) -> None:
    """All small ones are in the first group; large ones follow in their order, at least one at a time."""
    items = [1, 20, 2, 90, 11, 21, 3, 22, 10]
    assert await asyncio.gather(*[weighing.put(item) for item in items]) == items
    assert groups == [[1, 2, 3, 10, 20], [90], [11, 21], [22]]
    assert weighing.waiting == 0


async def test_all_that_came_during_a_group_counts_as_waiting() -> None:
    """However few rounds of the loop brought it."""
    begun, may_end = threading.Event(), threading.Event()

    def serve(items: list[int]) -> list[object]:
        begun.set()
        may_end.wait(10)
        return list(items)

    thread = make_thread(serve)
    puts = [thread.put(0)]
    assert await asyncio.to_thread(begun.wait, 10)
    for _ in range(3):
        puts += [thread.put(item) for item in range(50)]
        await asyncio.sleep(0)
    assert thread.waiting == 150
    may_end.set()
    await asyncio.gather(*puts)
    assert thread.waiting == 0
    await thread.close()
    assert thread.waiting == 0


async def test_who_serves_knows_the_weight_of_the_group() -> None:
    """Small and large ones together; nothing is weighed twice for it."""
    weights: list[int] = []
    weighed: list[int] = []
    served: list[int] = []

    def serve(items: list[int]) -> list[object]:
        weights.append(thread.weight)
        served.extend(items)
        return [*items]

    def weigh(item: int) -> int:
        weighed.append(item)
        return item

    loop = asyncio.get_running_loop()
    thread = GroupThread(name="writer", serve=serve, size=10, loop=loop, weights=Weights(weigh, 10, 50))
    await asyncio.gather(*[thread.put(item) for item in (1, 20, 2, 90, 3)], thread.put(4, 5, is_alone=False))
    assert weights == [1 + 20 + 2 + 3 + 4 + 5, 90]
    assert sorted(weighed) == sorted(served)
    await thread.close()


async def test_what_was_handed_in_as_one_is_as_large_as_its_sum(
    groups: Groups, weighing: GroupThread[int]
) -> None:
    """It stays one."""
    both = weighing.put(9, 9, is_alone=False), weighing.put(1)
    assert await asyncio.gather(*both) == [[9, 9], 1]
    assert groups == [[1, 9, 9]]


async def test_small_ones_that_never_end_do_not_hold_up_a_large_one(
    groups: Groups, weighing: GroupThread[int]
) -> None:
    """Each group has one at least."""
    large = [weighing.put(60 + number) for number in range(5)]
    small = 0
    while not large[-1].done():
        small += 1
        await weighing.put(1)
        assert small <= 6
    assert [item for group in groups for item in group if item > 1] == [60, 61, 62, 63, 64]


async def test_large_ones_are_served_before_the_thread_ends(
    groups: Groups, weighing: GroupThread[int]
) -> None:
    """Of what was put in before, nothing is lost."""
    some = [weighing.put(item) for item in (60, 61, 1, 62)]
    await weighing.close()
    assert [future.result() for future in some] == [60, 61, 1, 62]
    assert groups == [[1, 60], [61], [62]]
