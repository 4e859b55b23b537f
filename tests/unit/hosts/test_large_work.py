"""Large work runs beside the loop (decision 28)."""

import asyncio
import gc
import sys
import threading

import pytest

from scheduler_service.hosts.large_work import SWITCH_SECONDS, short_turns, work_by_size
from scheduler_service.language.values import LARGE_BYTES

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


async def test_the_collector_rests_meanwhile() -> None:
    """A body is hundreds of thousands of objects without a cycle: a round over them would hold the loop."""
    assert gc.isenabled()
    assert not await work_by_size(LARGE_BYTES + 1, gc.isenabled)
    assert gc.isenabled()


async def test_a_collector_that_rests_is_not_woken() -> None:
    """Whoever has told it to rest, as a recovery, tells it to go on."""
    gc.disable()
    try:
        assert not await work_by_size(LARGE_BYTES + 1, gc.isenabled)
        assert not gc.isenabled()
    finally:
        gc.enable()
