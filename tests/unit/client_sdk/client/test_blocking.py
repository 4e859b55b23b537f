"""The blocking face of the client (SPEC section 16)."""

import asyncio
import multiprocessing
import os
import threading

import pytest

from client_sdk import BlockingClient, Client
from client_sdk.errors import Absent, SdkError
from tests.unit.client_sdk.lines import serving
from tests.wire.service import World, definition


async def test_the_blocking_face_does_the_same(world: World) -> None:
    """Over a real socket, from a thread without an event loop."""
    async with serving(world.service.api) as url:
        await asyncio.to_thread(_use_blocking, url)


def _use_blocking(url: str) -> None:
    with BlockingClient(url, service="reports") as client:
        own = {"request": [{"url": "service:/run"}]}
        client.jobs.create(definition(**own), job_id="own")
        client.jobs.destroy("own")
        client.jobs.create(definition(), job_id="one")
        fired = client.jobs.trigger("one", {"size": 3})
        assert client.wait_for(fired, timeout=20).state == "succeeded"
        assert [job.job_id for job in client.jobs.list(page=1)] == ["one"]
        assert client.jobs.counts(last_outcome="succeeded").total.value == 1
        assert [one.state for one in client.executions.list()] == ["succeeded"]
        assert [len(one.executions) for one in client.jobs.outcomes(["one", "two"])] == [1, 0]
        assert client.executions.counts(job_id="one").by_state["succeeded"] == 1
        assert len(client.executions.series(buckets=24).buckets) in (24, 25)
        counted = (client.jobs.statistics("one"), client.scheduler.daily())
        assert [one.total.executions for one in counted] == [1, 1]
        assert client.queues.pause("work").paused is True
        assert client.queues.resume("work").paused is False
        with pytest.raises(Absent):
            client.services.pause("nobody")
        with pytest.raises(Absent):
            client.services.resume("nobody")
        with pytest.raises(Absent):
            client.jobs.get("two")
    assert not [one for one in threading.enumerate() if one.name == "punctual-client"]
    with pytest.raises(SdkError, match="closed"):
        client.jobs.get("one")


def _read_in_child(client: BlockingClient, found: "multiprocessing.SimpleQueue[list[str]]") -> None:
    with client:
        found.put([job.job_id for job in client.jobs.list()])
    os._exit(0)  # not by the end of Python, which expects the thread that forked to be the main one


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # from Python 3.12 on: it has threads
async def test_it_is_usable_in_a_process_that_forked(world: World) -> None:
    """As in a pool: the child has a loop of its own, and the parent keeps its connections."""

    def use(url: str) -> None:
        fork = multiprocessing.get_context("fork")
        found = fork.SimpleQueue()
        with BlockingClient(url) as client:
            client.jobs.create(definition(), job_id="one")
            child = fork.Process(target=_read_in_child, args=(client, found), daemon=True)
            child.start()
            child.join(20)
            assert child.exitcode == 0
            assert found.get() == ["one"] == [job.job_id for job in client.jobs.list()]

    async with serving(world.service.api) as url:
        await asyncio.to_thread(use, url)


async def test_one_client_serves_several_event_loops(world: World) -> None:
    """Each `asyncio.run` has connections of its own, which are closed with it."""

    def use(url: str) -> None:
        client = Client(url)
        for _ in range(3):
            assert asyncio.run(client.scheduler.nodes()) != []

    async with serving(world.service.api) as url:
        await asyncio.to_thread(use, url)
