"""What callers of a shard wait for while its process stands still."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.background_tasks import LEAST_PATIENCE_MS
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.remote_shard import RemoteShard, WorkerHandle
from scheduler_service.hosts.processes.rpc_methods import RpcConnection, Serve
from scheduler_service.hosts.processes.worker_processes import EXIT_TIMEOUT_SECONDS, longest_stop
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connected(serve: Serve, *, patience: float) -> AsyncIterator[WorkerHandle]:
    """The handle of a process that answers with `serve`."""
    worker = WorkerHandle(shard=1, patience=patience)
    connections = []
    for end in socket.socketpair():
        end.setblocking(False)
        connections.append(
            await RpcConnection.open(
                end,
                serve=serve,
                on_notice=lambda method, argument: None,
                on_lost=lambda: None,
                log=lambda event, /, **keys: None,
            )
        )
    worker.connect(connections[0])
    try:
        yield worker
    finally:
        for connection in connections:
            connection.close()
        await asyncio.sleep(0)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def compile_none(text: bytes, tenant: str) -> Any:
    raise AssertionError("no definition is read")


async def read_none(uid: str, revision: int) -> bytes | None:
    return None


async def stand_still(method: str, argument: bytes) -> bytes:
    return await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    "ask",
    [
        lambda shard: shard.resend("delivery"),
        lambda shard: shard.dismiss_here("delivery"),
        lambda shard: shard.forget("job"),
    ],
    ids=["resend", "dismiss", "forget"],
)
async def test_what_callers_change_is_not_waited_for(ask: Callable[[RemoteShard], Awaitable[object]]) -> None:
    """Whether it was done is not known: it may be, when the process goes on."""
    async with connected(stand_still, patience=0.05) as worker, asyncio.timeout(20):
        with pytest.raises(StoreUncertain, match="worker process 1 does not answer"):
            await ask(RemoteShard(worker=worker, compiler=compile_none, definition=read_none))


async def test_a_question_is_not_waited_for_where_the_process_stands_still() -> None:
    """It is named, and the question may be asked again."""
    async with connected(stand_still, patience=0.05) as worker:
        with pytest.raises(StoreUnavailable, match="worker process 1 does not answer"):
            await worker.ask(rpc_methods.FORGET, "job")


async def test_an_order_is_not_waited_for_where_the_process_stands_still() -> None:
    """Whether it was done is not known: it may be, when the process goes on."""
    may_go_on, done = asyncio.Event(), []

    async def stand_still(method: str, argument: bytes) -> bytes:
        await may_go_on.wait()
        done.append(method)
        return rpc_methods.FORGET.write_result(True)

    async with connected(stand_still, patience=0.05) as worker:
        with pytest.raises(StoreUncertain, match="worker process 1 does not answer"):
            await worker.order(rpc_methods.FORGET, "job")
        may_go_on.set()
        assert await worker.order(rpc_methods.FORGET, "job") is True
    assert done.count(rpc_methods.FORGET.name) == 2


@pytest.mark.parametrize("kind", ["ask", "order"])
async def test_what_takes_long_is_waited_for(kind: str) -> None:
    """The process answers pings: its list is long, or its machine is busy."""
    pings, enough = 0, asyncio.Event()

    async def work_slowly(method: str, argument: bytes) -> bytes:
        nonlocal pings
        if method == rpc_methods.PING.name:
            pings += 1
            enough.set() if pings == 2 else None
            return rpc_methods.PING.write_result(None)
        await enough.wait()
        return rpc_methods.FORGET.write_result(True)

    async with connected(work_slowly, patience=0.2) as worker:
        assert await getattr(worker, kind)(rpc_methods.FORGET, "job") is True


async def test_nothing_is_sent_to_a_process_that_is_silent() -> None:
    """Not even what changes something: whoever asks knows that nothing was done."""
    asked = []

    async def note(method: str, argument: bytes) -> bytes:
        asked.append(method)
        return rpc_methods.FORGET.write_result(True)

    async with connected(note, patience=1) as worker:
        worker.is_silent = True
        with pytest.raises(StoreUnavailable, match="worker process 1 does not answer"):
            await worker.call(rpc_methods.FORGET, "job")
        assert asked == []
        worker.is_silent = False
        assert await worker.call(rpc_methods.FORGET, "job") is True


@pytest.mark.parametrize("grace", [0, 20_000])
def test_a_process_whose_history_hangs_is_not_killed(grace: int) -> None:
    """It gives up by itself five seconds after its drain, and has time left to say so and to close."""
    assert longest_stop(grace) >= (grace + LEAST_PATIENCE_MS) / SECOND + EXIT_TIMEOUT_SECONDS
