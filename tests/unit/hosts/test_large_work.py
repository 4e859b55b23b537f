"""Large work runs beside the loop (decision 28)."""

import asyncio
import gc
import sys
import threading

import pytest

from scheduler_service.hosts.large_work import work_by_size
from scheduler_service.language.values import LARGE_BYTES
from scheduler_service.pacing.interpreter import SWITCH_SECONDS, short_turns

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("size", "is_apart"), [(0, False), (LARGE_BYTES, False), (LARGE_BYTES + 1, True)])
async def test_the_size_says_where_the_work_is_done(size: int, is_apart: bool) -> None:
    """What is small pays nothing for a thread."""
    assert (await work_by_size(size, threading.get_ident) != threading.get_ident()) is is_apart


async def test_the_loop_goes_on_meanwhile() -> None:
    """The work ends only when the loop has told it to."""
    told = threading.Event()
    work = asyncio.ensure_future(work_by_size(LARGE_BYTES + 1, told.wait))
    await asyncio.sleep(0)
    assert not work.done()
    told.set()
    assert await work


async def test_what_it_raises_arrives_and_the_next_work_is_done() -> None:
    """The interpreter changes threads as often as before."""
    usual = sys.getswitchinterval()
    with pytest.raises(ZeroDivisionError):
        await work_by_size(LARGE_BYTES + 1, lambda: 1 // 0)
    assert await work_by_size(LARGE_BYTES + 1, sys.getswitchinterval) < usual
    assert sys.getswitchinterval() == usual


class Held:
    """Notes the thread that lets go of it."""

    def __init__(self, threads: list[int]) -> None:
        self._threads = threads

    def __del__(self) -> None:
        self._threads.append(threading.get_ident())


async def test_what_failed_work_had_in_hand_is_let_go_in_its_thread() -> None:
    """On the loop 80,000 headers of a refused definition took 25 ms; errors behind the error hold as much."""
    threads: list[int] = []

    def read() -> None:
        kept = Held(threads)
        raise KeyError(id(kept))

    def work() -> None:
        kept = Held(threads)
        try:
            read()
        except KeyError:
            raise ValueError(id(kept)) from None

    with pytest.raises(ValueError, match=r"\d") as caught:
        await work_by_size(LARGE_BYTES + 1, work)
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    assert caught.value.__context__ is not None


async def test_turns_are_short_until_the_last_thread_has_ended() -> None:
    """Whichever begins or ends first."""
    usual = sys.getswitchinterval()
    first, second = short_turns(), short_turns()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert await work_by_size(LARGE_BYTES + 1, sys.getswitchinterval) == pytest.approx(SWITCH_SECONDS)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == usual


async def test_the_collector_looks_at_young_objects_alone_meanwhile() -> None:
    """A body is hundreds of thousands of objects without a cycle: a round over them would hold the loop.

    So would one afterwards over all that the process has made meanwhile, where there was no round at all.
    """
    usual = gc.get_threshold()
    rounds: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            rounds.append(info["generation"])

    def work() -> list[int]:
        rounds.clear()
        kept: list[list[int]] = [[] for _ in range(50_000)]
        assert kept
        return rounds[:]

    gc.callbacks.append(note)
    try:
        gc.set_threshold(1_000, 2, 2)
        while_working = await work_by_size(LARGE_BYTES + 1, work)
        after = gc.get_threshold()
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*usual)
    assert len(while_working) >= 40
    assert set(while_working) == {0}
    assert after == (1_000, 2, 2)


async def test_what_the_collector_is_told_meanwhile_stays() -> None:
    """As at the end of a start."""
    usual = gc.get_threshold()
    try:
        await work_by_size(LARGE_BYTES + 1, lambda: gc.set_threshold(5_000, 6, 7))
        assert gc.get_threshold() == (5_000, 6, 7)
    finally:
        gc.set_threshold(*usual)


async def test_a_collector_that_rests_is_not_woken() -> None:
    """Whoever has told it to rest, as a recovery, tells it to go on."""
    gc.disable()
    try:
        assert not await work_by_size(LARGE_BYTES + 1, gc.isenabled)
        assert not gc.isenabled()
    finally:
        gc.enable()
