"""Heartbeats, registrations and leases go on while a function holds the event loop (SPEC section 13)."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from client_sdk import Client, Service, Worker
from client_sdk.loops import LoopThread
from client_sdk.target import Execution
from client_sdk.target.invoke import call_function
from client_sdk.target.keeper import ThreadKeeper
from tests.unit.client_sdk.queue import Queue


class Aside:
    """A scheduler on an event loop of its own, so that no function of this one holds it."""

    def __init__(self, url: str, queue: Queue, loop: LoopThread) -> None:
        self.url = url
        self.queue = queue
        self._loop = loop

    def block_until(self, condition: Callable[[], Any]) -> None:
        """Blocks this thread until something that it was told makes `condition` true."""
        self._loop.run(self.queue.until(condition))

    def publish(self, job_id: str) -> None:
        """One more part waits."""
        self._loop.run(self.queue.publish(job_id))


@contextmanager
def scheduler_aside() -> Iterator[Aside]:
    """A small scheduler in memory, over real sockets."""
    loop = LoopThread("scheduler")

    async def start() -> tuple[Queue, uvicorn.Server, Any, int]:
        queue = Queue(lease_seconds=0.2, renew_seconds=0.02)
        server = uvicorn.Server(uvicorn.Config(queue.app, port=0, log_config=None, lifespan="off"))
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup()
        return queue, server, None, server.servers[0].sockets[0].getsockname()[1]

    queue, server, _, port = loop.run(start())
    try:
        yield Aside(f"http://127.0.0.1:{port}", queue, loop)
    finally:
        loop.run(server.shutdown())
        loop.close()


async def test_heartbeats_go_on_while_a_function_blocks() -> None:
    """And so do the registrations in full: the instance is not offline, though nobody is answered."""
    with scheduler_aside() as aside:
        async with Client(aside.url) as client:
            service = Service(
                "reports", client=client, address="http://127.0.0.1:9", signals=(),
                heartbeat_seconds=0.01, registration_seconds=0.02,
            )  # fmt: skip

            @service.job(job_id="block")
            async def block() -> int:
                before = len(aside.queue.told)
                aside.block_until(lambda: len(aside.queue.told) > before + 5)
                return len({"heartbeat", "instance"} & set(aside.queue.told[before:]))

            async with service, httpx.AsyncClient(transport=httpx.ASGITransport(service)) as http:
                assert (await http.post("http://t/punctual/jobs/block", json={})).json() == 2
        assert aside.queue.told[-2:] == ["draining", "deregistered"]


async def test_leases_are_kept_while_a_function_blocks() -> None:
    """Also that of a part which has not begun yet; each is done once."""
    worker = Worker("work", instance_id="one", concurrency=2, wait_seconds=5, heartbeat_seconds=1_000)
    times: list[str] = []
    with scheduler_aside() as aside:

        @worker.job(job_id="block")
        async def block(execution: Execution) -> None:
            times.append(execution.idempotency_key)
            before = len(aside.queue.renewals)
            aside.block_until(lambda: len(aside.queue.renewals) > before + 20)

        aside.publish("block")
        aside.publish("block")
        async with Client(aside.url) as client:
            running = asyncio.create_task(worker.run(client))
            await asyncio.to_thread(aside.block_until, lambda: len(aside.queue.completed) == 2)
            worker.stop()
            await running
    assert sorted(times) == ["life-1-0", "life-2-0"]
    assert [end.status for _, end in aside.queue.completed] == ["succeed", "succeed"]


class Lines(logging.Handler):
    """The lines of the log; `blocked` once one says that something blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocked, self.went_on = threading.Event(), threading.Event()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        (self.blocked if "blocks the event loop" in self.said[-1] else self.went_on).set()


async def test_a_function_that_blocks_is_named() -> None:
    """When it is noticed, and with its length at the end."""
    lines, log = Lines(), logging.getLogger("client_sdk")
    keeper = ThreadKeeper(Client().connection, blocked_seconds=0.01)
    log.addHandler(lines)

    async def slow() -> bool:
        return lines.blocked.wait(20)

    try:
        assert await call_function(slow, {}, Execution(job_id="slow"))
        await asyncio.to_thread(lines.went_on.wait, 20)
    finally:
        log.removeHandler(lines)
        await keeper.close()
    assert "slow (" in lines.said[0]
    assert "test_keeper.py:" in lines.said[0]
    assert "blocks the event loop, and all else waits: use await, or a plain function" in lines.said[0]
    assert "has blocked the event loop for" in lines.said[1]
