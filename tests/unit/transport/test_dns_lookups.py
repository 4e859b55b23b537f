"""Lookups in threads of their own: quick ones a few at a time, and none behind those that are stuck."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_address
from typing import Any, ClassVar

import pytest
import uvloop

from scheduler_service.domain.wire import Answer
from scheduler_service.transport.addresses import Address
from scheduler_service.transport.dns_lookups import SystemResolver, start_thread
from tests.unit.transport.servers import OK, Stage, answering, request

FOUND = [ip_address("10.0.0.1")]


class NameServer:
    """Answers at once, unless a name begins with `stuck`: then not before `gate` is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked: list[str] = []
        self.running = self.most = 0
        self._counted = threading.Lock()

    def look_up(self, host: str) -> Sequence[Address]:
        with self._counted:
            self.asked.append(host)
            self.running += 1
            self.most = max(self.most, self.running)
        if host.startswith("stuck"):
            assert self.gate.wait(60)
        with self._counted:
            self.running -= 1
        if host.startswith("missing"):
            raise OSError(f"nobody has {host}")
        return FOUND


@pytest.fixture
async def names() -> AsyncIterator[NameServer]:
    """A name server; in the end it answers all."""
    server = NameServer()
    yield server
    server.gate.set()


async def until(names: NameServer, count: int) -> None:
    """So many lookups are under way."""
    while names.running < count:  # noqa: ASYNC110 - threads tell nobody
        await asyncio.sleep(0)


async def test_the_machines_own_resolver_is_asked() -> None:
    """`localhost` is looked up as the machine does; what can be no name is a UnicodeError."""
    resolver = SystemResolver()
    assert {address.is_loopback for address in await resolver.resolve("localhost")} == {True}
    with pytest.raises(UnicodeError):
        await resolver.resolve("a" * 300)


async def test_callers_share_a_lookup(names: NameServer) -> None:
    """One of them may give up."""
    resolver = SystemResolver(look_up=names.look_up)
    first, second = (asyncio.ensure_future(resolver.resolve("stuck")) for _ in range(2))
    await until(names, 1)
    first.cancel()
    names.gate.set()
    assert await second == FOUND
    assert names.asked == ["stuck"]
    for _ in range(2):
        with pytest.raises(OSError, match="nobody has missing"):
            await resolver.resolve("missing")
    assert await resolver.resolve("there") == FOUND


async def test_quick_ones_run_a_few_at_a_time(names: NameServer) -> None:
    """However many are asked for: threads are none that take the interpreter from the loop."""
    resolver = SystemResolver(look_up=names.look_up, at_once=2, stuck=60)
    answers = await asyncio.gather(*(resolver.resolve(f"{number}.test") for number in range(100)))
    assert answers == [FOUND] * 100
    assert names.most <= 2
    assert sorted(names.asked) == sorted(f"{number}.test" for number in range(100))


async def test_those_that_are_stuck_hold_up_no_others(names: NameServer) -> None:
    """A name server that does not answer takes 10 s and more of each."""
    resolver = SystemResolver(look_up=names.look_up, at_once=2, most=20, stuck=0.001)
    stuck = [asyncio.ensure_future(resolver.resolve(f"stuck{number}")) for number in range(12)]
    assert await resolver.resolve("there") == FOUND
    assert not any(one.done() for one in stuck)
    names.gate.set()
    assert await asyncio.gather(*stuck) == [FOUND] * 12


async def test_names_that_had_an_address_before_come_first(names: NameServer) -> None:
    """Where as many are stuck as there may be."""
    resolver = SystemResolver(look_up=names.look_up, at_once=2, most=4, spare=1, stuck=0.001)
    assert await resolver.resolve("there") == FOUND
    stuck = [asyncio.ensure_future(resolver.resolve(f"stuck{number}")) for number in range(6)]
    await until(names, 4)
    new = asyncio.ensure_future(resolver.resolve("new"))
    assert await resolver.resolve("there") == FOUND
    assert not new.done()
    assert names.most == 5
    names.gate.set()
    assert await asyncio.gather(*stuck, new) == [FOUND] * 7


async def test_what_nobody_waits_for_is_not_looked_up(names: NameServer) -> None:
    """Calls give up after their timeout; the line behind a dead name server does not outlast them."""
    resolver = SystemResolver(look_up=names.look_up, at_once=2, most=2, spare=0, stuck=0.001)
    stuck = [asyncio.ensure_future(resolver.resolve(f"stuck{number}")) for number in range(2)]
    await until(names, 2)
    late = [asyncio.ensure_future(resolver.resolve(f"late{number}")) for number in range(9)]
    await asyncio.sleep(0)
    for one in late:
        one.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    names.gate.set()
    await asyncio.gather(*stuck)
    assert await resolver.resolve("late3") == FOUND
    assert (sorted(names.asked[:2]), names.asked[2:]) == (["stuck0", "stuck1"], ["late3"])


async def test_addresses_wait_for_no_lookup(stage: Stage, names: NameServer) -> None:
    """Connections to them are made while all lookups are stuck."""
    server = await stage.server(answering(OK, OK))
    resolver = SystemResolver(look_up=names.look_up, at_once=2, most=2, spare=0)
    sender = stage.sender(resolver=resolver)
    stuck = [asyncio.ensure_future(sender.send(request(f"http://stuck{number}/"))) for number in range(3)]
    await until(names, 2)
    assert isinstance(await sender.send(request(f"http://127.0.0.1:{server.port}/")), Answer)
    for one in stuck:
        one.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)


class Starter:
    """Starts threads as long as the machine has any."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, *arguments: Any) -> None:
        if not self.left:
            raise RuntimeError("can't start new thread")
        self.left -= 1
        start_thread(*arguments)


async def test_where_no_thread_can_be_started_lookups_wait_for_one(names: NameServer) -> None:
    """However many are in line; where none runs, the error names the limit."""
    start = Starter(1)
    resolver = SystemResolver(look_up=names.look_up, at_once=4, stuck=0.001, start=start)
    asking = [asyncio.ensure_future(resolver.resolve("stuck"))]
    asking += [asyncio.ensure_future(resolver.resolve(f"{number}.test")) for number in range(2_000)]
    await until(names, 1)
    names.gate.set()
    assert await asyncio.gather(*asking) == [FOUND] * 2_001
    none = SystemResolver(look_up=names.look_up, start=Starter(0))
    outcomes = await asyncio.gather(
        *(none.resolve(f"{n}.test") for n in range(2_000)), return_exceptions=True
    )
    assert all(isinstance(one, OSError) and "TasksMax" in str(one) for one in outcomes)


LEAVING = """
import asyncio, threading, uvloop
from scheduler_service.transport.dns_lookups import SystemResolver

async def main():
    resolver = SystemResolver(look_up=lambda host: threading.Event().wait(), at_once=2, stuck=0.001)
    asking = [asyncio.ensure_future(resolver.resolve(str(number))) for number in range(20)]
    await asyncio.wait(asking, timeout=0.1)
    for one in asking:
        one.cancel()
    print("left", threading.active_count() > 2)

uvloop.run(main())
"""


def test_a_process_ends_while_lookups_are_stuck() -> None:
    """It does not wait for a name server that does not answer."""
    child = subprocess.run(
        [sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=60, check=True
    )
    assert (child.stdout.split(), child.stderr) == (["left", "True"], "")


class Asked(uvloop.Loop):
    """Notes for which addresses it is asked to connect or to look up: it would do both in libuv's threads."""

    addresses: ClassVar[list[object]] = []

    def sock_connect(self, sock: Any, address: Any) -> Any:
        """Connects (asyncio)."""
        self.addresses.append(address)
        return super().sock_connect(sock, address)

    def getaddrinfo(self, host: Any, port: Any, **given: Any) -> Any:
        """Looks up (asyncio)."""
        self.addresses.append(host)
        return super().getaddrinfo(host, port, **given)

    def create_connection(self, factory: Any, host: Any = None, *given: Any, **further: Any) -> Any:
        """Connects, or takes over a socket (asyncio)."""
        if host is not None:
            self.addresses.append(host)
        return super().create_connection(factory, host, *given, **further)


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"loop_factory": Asked})])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_the_loop_looks_nothing_up(stage: Stage, host: str) -> None:
    """uvloop looks up even a number, behind all names that are stuck there (decision 66)."""
    assert isinstance(asyncio.get_running_loop(), Asked)
    server = await stage.server(answering(OK))
    Asked.addresses.clear()
    answer = await stage.sender().send(request(server.url.replace("127.0.0.1", host)))
    assert isinstance(answer, Answer)
    assert Asked.addresses == []
