"""The history's thread calls the loop while there is one."""

import asyncio
import threading

import pytest

from scheduler_service.app.history_opening import call_on


@pytest.mark.anyio
async def test_the_work_is_done_on_the_thread_of_the_loop() -> None:
    """With what was given."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[str, int]] = loop.create_future()

    def work(text: str) -> None:
        done.set_result((text, threading.get_ident()))

    await asyncio.to_thread(call_on, loop, work, "trouble")
    assert await done == ("trouble", threading.get_ident())


def test_a_loop_that_has_ended_is_not_called() -> None:
    """The thread writes what it has and ends, without an error of its own."""
    loop = asyncio.new_event_loop()
    loop.close()
    called: list[str] = []
    call_on(loop, called.append, "late")
    assert called == []
