"""A node of a cluster, asked without its sidecar (SPEC sections 13, 15)."""

from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from scheduler_service import __version__
from scheduler_service.app.node_service import open_node
from scheduler_service.domain.effects import PublishParts
from scheduler_service.domain.parts import PartName, QueuedPart, QueueOptions
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.persistence.history.database import inspect
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.ports.cluster import QueueTurn
from scheduler_service.settings import load_settings
from tests.wire.metrics_text import read_text

SERVED = "http://127.0.0.1:8000"


async def test_every_node_shows_the_queues_of_the_cluster(tmp_path: Path, each_server: str) -> None:
    """What one has published, in `GET /queues` and in the figures of each; claims wait for its start."""
    given = {"store.data": str(tmp_path / "one"), "database.url": each_server}
    shared = await JobDatabase.open(url=each_server)
    request = OutboundRequest("POST", "queue://work", ())
    part = QueuedPart(PartName("u", 1, 1, 0, 0), "work", 1, request, QueueOptions(), 0, 1, "job", "default")
    await TurnStore(database=shared).enqueue(QueueTurn("u", 1, 0, (PublishParts((part,)),)))
    await shared.close()
    for name in ("one", "two"):
        node = await open_node(load_settings({**given, "node.id": name}, {}), served=SERVED, log=_ignore)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(node.api), base_url=SERVED) as client:
            (listed,) = (await client.get("/queues")).json()["data"]["items"]
            read = (await client.get("/queues/work")).json()["data"]
            counted = (await client.get("/counts/queues")).json()["data"]
            figures = read_text((await client.get("/metrics")).text)
            claimed = await client.post("/queues/work/claim", json={"instanceId": "w"})
        await node.stop(0)
        assert (listed["name"], listed["depth"], listed["held"]) == ("work", 1, 0)
        assert (read["depth"], read["items"]) == (1, [])
        assert (counted["waiting"], counted["held"]) == (1, 0)
        assert figures.value("punctual_queue_depth", queue="work") == 1
        assert claimed.status_code == 503
        assert "not open yet" in claimed.json()["detail"]


async def test_a_node_gives_its_figures(tmp_path: Path) -> None:
    """As a service does: its own process, the jobs of the shared database, the nodes of the cluster."""
    loaded = load_settings({"store.data": str(tmp_path), "node.id": "one"}, {})
    node = await open_node(loaded, served=SERVED, log=_ignore)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(node.api), base_url=SERVED) as client:
        answer = await client.get("/metrics")
    await node.stop(0)
    assert answer.status_code == 200
    found = read_text(answer.text)
    assert found.value("punctual_process_up") == 1
    assert found.value("punctual_nodes", state="running") == 1
    assert found.value("punctual_build_info", version=__version__, node="one", host="dapr") == 1
    assert found.value("punctual_firings_due") == 0
    assert found.value("punctual_store_up", store="state") == 1
    assert found.value("punctual_store_up", store="history") == 1
    assert found.value("punctual_outbox_deliveries") == 0
    parts = {one.labels["part"]: one.value for one in found.families["punctual_scrape_errors"].samples}
    assert set(parts.values()) == {0}, parts


async def test_nodes_share_all_they_share_in_one_database(tmp_path: Path, each_server: str) -> None:
    """Catalogue, claims and the history: nothing lies in a folder that another machine does not have."""
    given = {"store.data": str(tmp_path / "one"), "database.url": each_server}
    one = await open_node(load_settings(given, {}), served=SERVED, log=_ignore)
    other = {**given, "store.data": str(tmp_path / "two"), "node.id": "two"}
    two = await open_node(load_settings(other, {}), served=SERVED, log=_ignore)
    found = []
    for node in (one, two):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(node.api), base_url=SERVED) as client:
            found.append((await client.get("/executions")).json()["data"]["items"])
        await node.stop(0)
    assert found == [[], []]
    assert inspect(url=each_server).up_to_date
    assert list(tmp_path.rglob("*.db")) == []


async def test_what_registers_at_one_node_is_there_at_the_other(tmp_path: Path, each_server: str) -> None:
    """Through the API: service, instance, heartbeat, leaving."""
    given = {"store.data": str(tmp_path / "one"), "database.url": each_server}
    nodes = [
        await open_node(load_settings({**given, "node.id": name}, {}), served=SERVED, log=_ignore)
        for name in ("one", "two")
    ]
    async with AsyncExitStack() as open_clients:
        one, two = [
            await open_clients.enter_async_context(
                httpx.AsyncClient(transport=httpx.ASGITransport(node.api), base_url=SERVED)
            )
            for node in nodes
        ]
        instance = "/services/shop/instances/a"
        assert (await one.put(instance, json={"address": "http://127.0.0.1:9"})).status_code == 201
        assert (await two.post(f"{instance}/heartbeat", json={"load": 2})).status_code == 200
        assert (await one.get("/services")).json() == (await two.get("/services")).json()
        assert (await two.put(instance, json={"address": "http://127.0.0.1:9"})).status_code == 200
        assert (await two.put("/services/shop", json={"route": "hash"})).status_code == 200
        assert (await one.get("/services/shop")).json()["data"]["route"] == "hash"
        assert (await two.delete(instance)).status_code == 200
        assert (await one.get("/services/shop")).json()["data"]["instances"] == []
        assert (await one.post(f"{instance}/heartbeat")).status_code == 404
    for node in nodes:
        await node.stop(0)


def _ignore(_: str, /, **keys: object) -> None:
    return
