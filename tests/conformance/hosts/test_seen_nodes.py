"""A node that dies or stands still is seen at the others: log, figure and alert, and how soon."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from scheduler_service import __version__
from scheduler_service.app.core_settings import DefinitionCompiler
from scheduler_service.app.metrics import make_exposition
from scheduler_service.domain.wire import Answer, OutboundRequest, Outcome
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.dapr.heartbeat import HEARTBEAT_INTERVAL_MS, OFFLINE_AFTER_MS
from scheduler_service.hosts.dapr.node import ClusterView, node_wire
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.ports.sending import MayGo, Sender, always
from scheduler_service.services.pauses import Pauses
from scheduler_service.settings import Settings
from scheduler_service.system_jobs.process_alerts import ProcessAlerts
from scheduler_service.telemetry.event_source import Occurrences
from scheduler_service.telemetry.metrics.process_metrics import ProcessMetrics
from tests.conformance.hosts.houses import DaprHouse, DaprNode
from tests.unit.api.stores import EmptyQueues
from tests.unit.services.tables import MemoryTable, tell_nobody
from tests.wire.metrics_text import Scraped, read_text
from tests.wire.target import Target

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
STEP_MS = 500
EARLIEST_MS = OFFLINE_AFTER_MS - HEARTBEAT_INTERVAL_MS
"""It may have died just before its next heartbeat."""
SOON_MS = 13_000
"""A node counts as lost after 10 s; the others look every half second then, alerts each second."""
PATIENCE = 30.0


class Posting(Sender):
    """Sends over real connections, and does what the step of an alert's job does: nothing."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        if request.url.startswith("system://"):
            return Answer(status=200, headers=(), body=b"{}")
        headers = dict(request.headers)
        answer = await self._client.request(
            request.method, request.url, headers=headers, content=request.body
        )
        return Answer(status=answer.status_code, headers=(), body=answer.content)

    async def close(self) -> None:
        """The client is the test's."""


class Scene:
    """Two nodes over the stand-in; the alerts of the first one go to a receiver on loopback."""

    def __init__(self, house: DaprHouse, alerts: ProcessAlerts, target: Target) -> None:
        self.house = house
        self.target = target
        self._alerts = alerts

    @property
    def node(self) -> DaprNode:
        """The one that goes on."""
        return self.house.nodes["one"]

    async def seen(self, event: str, kind: str) -> tuple[dict[str, object], dict[str, Any], int]:
        """The line, the message, and after how many ms both are there; the clock runs on meanwhile."""
        began = self.house.clock.now().steady
        while True:
            lines = [keys for name, keys in self.house.log if name == event]
            messages = [one.json for one in self.target.at("/hook") if one.json["kind"] == kind]
            took = self.house.clock.now().steady - began
            if lines and messages:
                print(f"{event} and {kind} after {took} ms")
                return lines[0], messages[0], took
            assert took <= SOON_MS, (event, kind, self.house.log, messages)
            await self.house.advance(STEP_MS)
            await self._rest()

    async def scrape(self) -> Scraped:
        """`/metrics` of the first node, by a real parser."""

        async def list_nodes() -> Sequence[Mapping[str, object]]:
            now = self.house.clock.now().steady
            return [node_wire(node, now, 0) for node in await self.node.nodes.list()]

        exposition = make_exposition(
            ProcessMetrics(),
            host=self.node.host,
            counted={},
            catalogue=self.house.catalogue,
            deliveries=self.node.host.store,
            queues=EmptyQueues(),  # type: ignore[arg-type] - no part is published here
            instances=self.house.instances,
            pauses=Pauses(table=MemoryTable(), clock=self.house.clock, tell=tell_nobody),
            clock=self.house.clock,
            nodes=list_nodes,
            node="one",
            kind="dapr",
        )
        assert exposition is not None
        return read_text((await exposition.expose("")).body.decode())

    async def _rest(self) -> None:
        """The alerts read in a thread of their own, which no clock of a test moves."""
        end = time.monotonic() + PATIENCE
        while not self._alerts.is_idle:
            assert time.monotonic() < end
            await asyncio.sleep(0)
        await self.house.settle()


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    house = DaprHouse()
    async with Target(lambda: house.clock.now().wall) as target, httpx.AsyncClient(trust_env=False) as client:
        alert = {"name": "ops", "on": ["nodeLost"], "url": f"{target.url}/hook", "minIntervalSeconds": 0}
        settings = Settings.model_validate({"alerts": [alert]})
        compiler = DefinitionCompiler(settings=settings, surroundings=Surroundings())
        house.core = msgspec.structs.replace(house.core, compile=compiler.stored)
        house.sender = Posting(client)  # type: ignore[assignment] - real connections, instead of a script
        await house.start()
        database = HistoryDatabase(url="sqlite://", durability="process")
        view = ClusterView(cluster=house.node.cluster, clock=house.clock)
        host = house.node.host
        alerts = ProcessAlerts(
            settings=settings,
            database=database,
            deliver=host,
            read_job=host.read,
            catalogue=house.catalogue,
            compile_text=compiler.stored,
            surroundings=Surroundings(),
            clock=house.clock,
            occurrences=Occurrences(),
            is_online=lambda service, instance: True,
            log=lambda event, /, **keys: house.log.append((event, keys)),
            leads=view.leads,
            find_lost=view.find_lost,
            nodes=view.alive,
        )
        await alerts.start()
        await house.add("two")
        await house.advance(4_000)
        try:
            yield Scene(house, alerts, target)
        finally:
            await alerts.stop()
            await house.close()
            database.close()


async def test_a_node_that_dies_is_seen() -> None:
    """Within seconds of the ten for which it is waited; and its next start as well."""
    async with scene() as at:
        assert (await at.scrape()).value("punctual_nodes", state="running") == 2
        await at.house.crash("two")
        line, message, took = await at.seen("node_lost", "nodeLost")
        assert (line["node"], line["reason"]) == ("two", "silent")
        assert (message["alert"], message["subject"]) == ("ops", "two")
        assert message["message"].startswith("no heartbeat for 1")
        assert EARLIEST_MS <= took <= SOON_MS
        found = await at.scrape()
        assert found.value("punctual_nodes", state="running") == 1
        assert found.value("punctual_nodes", state="offline") == 1
        assert found.value("punctual_build_info", node="one", host="dapr", version=__version__) == 1
        at.house.log.clear()
        await at.house.add("two")
        line, message, _ = await at.seen("node_joined", "recovered")
        assert (line["node"], message["of"], message["subject"]) == ("two", "nodeLost", "two")
        assert (await at.scrape()).value("punctual_nodes", state="running") == 2


async def test_a_node_that_stands_still_is_seen() -> None:
    """As one that has died, until it goes on."""
    async with scene() as at:
        at.house.freeze("two")
        line, message, took = await at.seen("node_lost", "nodeLost")
        assert (line["node"], message["subject"]) == ("two", "two")
        assert EARLIEST_MS <= took <= SOON_MS
        assert (await at.scrape()).value("punctual_nodes", state="offline") == 1
        at.house.log.clear()
        await at.house.thaw("two")
        line, message, _ = await at.seen("node_joined", "recovered")
        assert (line["node"], message["of"], message["subject"]) == ("two", "nodeLost", "two")
        assert (await at.scrape()).value("punctual_nodes", state="running") == 2
