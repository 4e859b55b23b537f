"""What every process is made of: the figures of its parts (SIGUSR1), and calls on the thread of its loop."""

import asyncio
import json
import threading
from pathlib import Path

from scheduler_service.app.local_service import open_service
from scheduler_service.app.node_service import open_node
from scheduler_service.app.process_parts import call_on
from scheduler_service.services.shared_calendars import Calendars
from scheduler_service.settings import load_settings
from tests.present import present
from tests.redis_server import SYNCING, RedisServer
from tests.unit.services.memory_calendars import MemoryCalendars


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


SERVED = "http://127.0.0.1:8000"
IDLE = {
    "jobs": {"held": 0, "running": 0, "calls": 0, "parts": 0, "notifications": 0},
    "calls": {"origins": {}},
    "store": {"commitsWaiting": 0},
    "history": {"batchesWaiting": 0, "bytesWaiting": 0},
}


async def test_a_service_that_does_nothing_says_so() -> None:
    """All figures are there, and it has no worker processes."""
    service = await open_service(load_settings({"store.data": ":memory:"}, {}), served=SERVED, log=_ignore)
    assert service.describe() == IDLE
    assert list(service.processes()) == []
    await service.stop(0)


async def test_days_are_read_for_a_definition_that_names_some_and_as_known_while_they_cannot_be() -> None:
    """The word alone reads nothing; a database that is away refuses no definition."""
    service = await open_service(load_settings({"store.data": ":memory:"}, {}), served=SERVED, log=_ignore)
    table = MemoryCalendars()

    service.calendars = Calendars(table=table, clock=service.clock)
    base = {"jobId": "j", "jobName": "my calendar", "creator": "1", "creatorName": "one"}
    request = [{"url": "http://target.test/run"}]
    table.is_away = True
    for timer in ({"period": "10s"}, {"period": "0/10 * * * * ?", "calendar": "office"}):
        text = json.dumps({**base, "timer": timer, "request": request}).encode()
        assert (await service.compile_received(text, "default")).timer.rule is None or timer.get("calendar")
    table.is_away = False
    await table.put("default", "office", b"{}", 0)
    program = await service.compile_received(text, "default")
    assert present(program.timer.rule).calendar is not None
    await service.stop(0)


async def test_a_service_with_contexts_in_redis_too(tmp_path: Path) -> None:
    """Its store has another one before it."""
    server = RedisServer(tmp_path / "redis", *SYNCING).start()
    try:
        given = {"store.data": ":memory:", "contexts.url": server.url}
        service = await open_service(load_settings(given, {}), served=SERVED, log=_ignore)
        assert service.describe() == IDLE
        await service.stop(0)
    finally:
        server.kill()


async def test_a_node_too(tmp_path: Path) -> None:
    """It is one process."""
    node = await open_node(load_settings({"store.data": str(tmp_path)}, {}), served=SERVED, log=_ignore)
    assert node.describe() == IDLE
    assert list(node.processes()) == []
    await node.stop(0)


def _ignore(_: str, /, **keys: object) -> None:
    return
