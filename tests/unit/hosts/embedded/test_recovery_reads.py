"""What a start reads of the jobs that were left open, counted at the SQLite store."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from scheduler_service.domain.events import Created, Triggered
from scheduler_service.domain.wire import Answer, Holder, OutboundRequest, Outcome
from scheduler_service.hosts.embedded.build import EmbeddedParts, build_embedded_host
from scheduler_service.hosts.embedded.host import EmbeddedHost
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.sending import MayGo, always
from scheduler_service.ports.state import StoredJob
from scheduler_service.security.masking import Masking
from scheduler_service.services.instances import Instances
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.timing.misfire import count_missed
from tests.manual_clock import ManualClock
from tests.unit.hosts.house import CORE, SKEW, START, MemoryHistory, describe, until

pytestmark = pytest.mark.anyio
JOBS = 50


class CountedStore(SqliteStateStore):
    """Counts how often each job is loaded."""

    loaded: Counter[str]

    async def load(self, job_id: str) -> StoredJob | None:
        """The job, or None."""
        self.loaded[job_id] += 1
        return await super().load(job_id)


class HoldingSender:
    """A target that does not answer until it is told to."""

    def __init__(self) -> None:
        self.sent = 0
        self.gate = asyncio.Event()

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """200, later."""
        self.sent += 1
        await self.gate.wait()
        return Answer(200, (), b"{}", False, 1, request.url)

    async def close(self) -> None:
        """Nothing to close."""


async def open_host(folder: Path) -> tuple[EmbeddedHost, CountedStore, HoldingSender]:
    """A process over the files."""
    store = await CountedStore.open(folder=folder, durability="process")
    store.loaded = Counter()
    clock, sender = ManualClock(wall=START, skew=SKEW), HoldingSender()
    parts = EmbeddedParts(
        core=CORE,
        store=store,
        history=MemoryHistory(store, []),
        sender=sender,
        router=MemoryRouter(instances=Instances(), terms=lambda _, __: Terms(), clock=clock),
        clock=clock,
        redact=Masking().redact_all,
        count=count_missed,
        log=lambda event, /, **keys: None,
        holder=Holder("node", str(store.boot)),
        boot=store.boot,
    )
    return build_embedded_host(parts), store, sender


async def test_each_job_in_flight_is_read_once(tmp_path: Path) -> None:
    """To see whether it has calls, and to send them again: from the files, in one read."""
    host, store, sender = await open_host(tmp_path)
    await host.start()
    names = [f"job-{number}" for number in range(JOBS)]
    for name in names:
        definition = describe(jobId=name, qos=1)
        await host(name, Command(Created("", b""), definition=definition))
        await host(name, Command(Triggered()))
    await until(lambda: sender.sent == JOBS)
    host.abort()
    await store.close()
    host, store, sender = await open_host(tmp_path)
    await host.start()
    await until(lambda: sender.sent == JOBS)
    assert store.loaded == dict.fromkeys(names, 1)
    sender.gate.set()
    await until(lambda: host.running == 0)
    await host.stop(0)
