"""Told to end, an instance drains before its server hears of it (SPEC section 13)."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from client_sdk.target.signals import SignalDrain

pytestmark = pytest.mark.anyio
NUMBER = signal.SIGUSR1


class Heard:
    """A handler of signals; `times` counts them."""

    def __init__(self) -> None:
        self.times = 0
        self.once = asyncio.Event()

    def take(self, number: int, frame: Any) -> None:
        self.times += 1
        self.once.set()


@pytest.fixture
def heard() -> Iterator["Heard"]:
    """What the server's own handler hears."""
    heard = Heard()
    before = signal.signal(NUMBER, heard.take)
    yield heard
    signal.signal(NUMBER, before)


async def test_the_signal_waits_until_the_work_is_done(heard: Heard) -> None:
    """Then it does what it would have done."""
    begun, go, before = asyncio.Event(), asyncio.Event(), signal.getsignal(NUMBER)

    async def stop() -> None:
        begun.set()
        await go.wait()

    farewell = SignalDrain(numbers=[NUMBER], stop=stop)
    farewell.install()
    signal.raise_signal(NUMBER)
    await begun.wait()
    assert heard.times == 0
    go.set()
    await heard.once.wait()
    assert heard.times == 1
    assert signal.getsignal(NUMBER) == before


@pytest.mark.parametrize("signals", [1, 2])
def test_a_second_signal_is_passed_on_at_once(heard: Heard, signals: int) -> None:
    """Who is in a hurry says it twice. The end of the loop, which cancels the draining, raises no signal."""

    async def hurry() -> None:
        begun = asyncio.Event()

        async def stop() -> None:
            begun.set()
            await asyncio.Event().wait()

        SignalDrain(numbers=[NUMBER], stop=stop).install()
        signal.raise_signal(NUMBER)
        await begun.wait()
        if signals == 2:
            signal.raise_signal(NUMBER)
        assert heard.times == signals - 1

    asyncio.run(hurry())
    assert heard.times == signals - 1


async def test_handlers_are_given_back(heard: Heard) -> None:
    """An instance that ends by itself leaves signals as they were; one in a thread never takes them."""
    before = signal.getsignal(NUMBER)

    async def stop() -> None: ...

    farewell = SignalDrain(numbers=[NUMBER], stop=stop)
    farewell.install()
    assert signal.getsignal(NUMBER) != before
    farewell.remove()
    assert signal.getsignal(NUMBER) == before
    thread = threading.Thread(target=SignalDrain(numbers=[NUMBER], stop=stop).install)
    thread.start()
    thread.join()
    assert signal.getsignal(NUMBER) == before
