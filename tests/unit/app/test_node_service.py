"""A node of a cluster, asked without its sidecar (SPEC sections 13, 15)."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx

from scheduler_service import __version__
from scheduler_service.app.node_service import open_node, shared_url
from scheduler_service.domain.effects import PublishParts
from scheduler_service.domain.step_parts import PartName, QueuedPart, QueueOptions
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.hosts.dapr.heartbeat import OFFLINE_AFTER_MS, NodeHeartbeat
from scheduler_service.hosts.dapr.node import Cluster, ClusterView, node_wire
from scheduler_service.persistence.cluster.nodes import Nodes
from scheduler_service.persistence.history.database import inspect
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.ports.cluster import TURNS_IN_ROWS, Node, QueueTurn
from scheduler_service.settings import Settings, load_settings
from tests.manual_clock import ManualClock
from tests.rows import each_row
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


async def test_a_session_that_is_signed_out_ends_at_every_node(tmp_path: Path, each_server: str) -> None:
    """Of `server.key`, too, whose sessions have no key in the table; another goes on (SPEC section 14)."""
    key = "the-key-of-the-settings"
    given = {"store.data": str(tmp_path / "one"), "database.url": each_server, "server.key": key}
    nodes = [
        await open_node(load_settings({**given, "node.id": name}, {}), served=SERVED, log=_ignore)
        for name in ("one", "two")
    ]
    one, two = [httpx.AsyncClient(transport=httpx.ASGITransport(node.api), base_url=SERVED) for node in nodes]

    async def sign_in() -> dict[str, str]:
        answer = await one.post("/session", json={"key": key})
        one.cookies.clear()
        return {"Cookie": answer.headers["set-cookie"].partition(";")[0], "X-Punctual-Console": "1"}

    ended, other = await sign_in(), await sign_in()
    statuses = [(await each.get("/jobs", headers=ended)).status_code for each in (one, two)]
    assert statuses == [200, 200]
    assert (await one.delete("/session", headers=ended)).status_code == 200
    await nodes[1].key_ring.look()  # as it does each second
    for each in (one, two):
        assert (await each.get("/jobs", headers=ended)).status_code == 401
        assert (await each.get("/jobs", headers=other)).status_code == 200
        await each.aclose()
    for node in nodes:
        await node.stop(0)


def _ignore(_: str, /, **keys: object) -> None:
    return


@each_row("url", ["postgresql://me:hidden@db/x", "mysql://me:hidden@db/x", "mariadb://me:hidden@db/x"])
def test_what_nodes_share_lies_beside_the_history_on_a_server(url: str) -> None:
    """On whichever; without one, or with a history in a file, in a file of its own."""
    assert shared({"database": {"url": url}}) == url
    assert shared({"database": {"url": "mysql://db/history"}, "store": {"url": url}}) == url
    assert shared({}) == shared({"database": {"url": "sqlite:///h.db"}}) == "sqlite:////data/cluster.db"


def shared(given: dict[str, Any]) -> str:
    """The address of what nodes share."""
    return shared_url(Settings.model_validate(given), Path("/data"))


def test_a_node_that_was_not_heard_of_for_ten_seconds_is_offline() -> None:
    """`GET /nodes` (SPEC section 14)."""
    node = Node("one", "3", "http://127.0.0.1:8000", "1", "running", 1_000, 5_000, 2, 1)
    wire = node_wire(node, 14_999, 1_000)
    assert (wire["state"], wire["lastHeartbeat"]) == ("running", "1970-01-01T00:00:06.000Z")
    assert node_wire(node, 15_000, 1_000)["state"] == "offline"


@each_row(("known", "shown"), [("0008", {"cluster": "0008"}), ("", {})])
def test_a_node_shows_which_tables_it_knows(known: str, shown: dict[str, str]) -> None:
    """So that two versions beside each other are told apart; a node before 0.2.0 does not say it."""
    node = Node("one", "3", "http://127.0.0.1:8000", "1", "running", 1_000, 5_000, 2, 1, format=known)
    assert node_wire(node, 14_999, 1_000)["formats"] == shown


async def test_a_node_opens_with_alerts(tmp_path: Path) -> None:
    """And shows them; values of headers are hidden there too."""
    alert = {
        "name": "ops",
        "on": ["nodeLost"],
        "url": "http://127.0.0.1:9/",
        "headers": {"X-Key": "a-secret"},
    }
    loaded = load_settings({"store.data": str(tmp_path), "alerts": [alert]}, {})
    node = await open_node(loaded, served=SERVED, log=_ignore)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(node.api), base_url=SERVED) as client:
        answer = await client.get("/alerts")
    await node.stop(0)
    assert answer.status_code == 200
    assert '"deliveriesOf":"alert.ops"' in answer.text
    assert "a-secret" not in answer.text


async def test_a_node_without_heartbeats_is_found_and_another_leads() -> None:
    """After ten seconds; the lease is its until then, and one that is back is alive again."""
    clock = ManualClock(wall=1_000_000)
    database = await JobDatabase.open(url="sqlite://")
    nodes = Nodes(database=database)
    one, two = [await _enter(nodes, clock, database, name) for name in ("one", "two")]
    first, second = (ClusterView(cluster=cluster, clock=clock) for cluster in (one, two))
    assert (await second.leads(), await first.leads(), await second.leads()) == (True, False, True)
    assert await first.find_lost() == []
    clock.advance(OFFLINE_AFTER_MS + 1)
    await one.heartbeat.report("running")
    (lost,) = await first.find_lost()
    assert (lost.kind, lost.subject) == ("nodeLost", "two")
    assert await first.alive() == {"one": True, "two": False}
    assert (await first.leads(), await second.leads()) == (True, False)
    await two.heartbeat.report("running")
    assert await first.alive() == {"one": True, "two": True}
    await database.close()


async def _enter(nodes: Nodes, clock: ManualClock, database: JobDatabase, name: str) -> Cluster:
    epoch = await nodes.next_epoch()
    now = clock.now()
    said = Node(name, str(epoch), f"http://{name}", "0", "running", now.wall, now.steady, 0, 0, TURNS_IN_ROWS)
    heartbeat = NodeHeartbeat(nodes=nodes, clock=clock, node=said, log=_ignore)
    await heartbeat.enter()
    return Cluster(store=TurnStore(database=database), nodes=nodes, heartbeat=heartbeat, epoch=epoch)
