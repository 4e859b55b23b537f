"""A node among the nodes of its cluster (SPEC section 14)."""

from pathlib import Path
from typing import Any

import httpx

from scheduler_service.app.cluster_join import shared_url
from scheduler_service.app.node_service import open_node
from scheduler_service.hosts.dapr.cluster_view import ClusterView, node_wire
from scheduler_service.hosts.dapr.heartbeat import NodeHeartbeat
from scheduler_service.hosts.dapr.liveness import OFFLINE_AFTER_MS
from scheduler_service.hosts.dapr.node import Cluster
from scheduler_service.persistence.cluster.nodes import Nodes
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.ports.cluster import TURNS_IN_ROWS, Node
from scheduler_service.settings import Settings, load_settings
from tests.manual_clock import ManualClock
from tests.rows import each_row

SERVED = "http://127.0.0.1:8000"


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


def _ignore(_: str, /, **keys: object) -> None:
    return


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
