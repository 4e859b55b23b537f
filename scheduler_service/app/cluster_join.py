"""This node among the nodes of its cluster: its name, its registration, and what they share."""

import platform
import re
from pathlib import Path

from scheduler_service import __version__
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.dapr.heartbeat import NodeHeartbeat
from scheduler_service.hosts.dapr.liveness import RUNNING
from scheduler_service.hosts.dapr.node import Cluster
from scheduler_service.persistence.cluster.nodes import Nodes
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.schema import MIGRATIONS
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.persistence.sql.sqlite import address_of
from scheduler_service.ports.cluster import Node
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings
from scheduler_service.telemetry.metrics.process_metrics import process_age

SHARED_FILE = "cluster.db"


async def join_cluster(shared: JobDatabase, clock: SystemClock, name: str, served: str, log: Log) -> Cluster:
    """Registers this node among the others. Raises StoreError."""
    nodes = Nodes(database=shared)
    epoch, now = await nodes.next_epoch(), clock.now()
    node = Node(
        node_id=name,
        boot=str(epoch),
        address=served,
        version=__version__,
        state=RUNNING,
        started_at=now.wall - process_age(),
        seen_at=now.steady,
        jobs_held=0,
        running=0,
        format=MIGRATIONS.head,
    )
    heartbeat = NodeHeartbeat(nodes=nodes, clock=clock, node=node, log=log)
    await heartbeat.enter()
    return Cluster(store=TurnStore(database=shared), nodes=nodes, heartbeat=heartbeat, epoch=epoch)


def shared_url(settings: Settings, folder: Path) -> str:
    """The shared database: the server that the settings name, else a file in the data folder."""
    url = settings.store.url or settings.database.url
    return address_of(folder / SHARED_FILE) if url is None or url.startswith("sqlite") else url


def node_id(settings: Settings, served: str) -> str:
    """`node.id`, or this machine's name and the port that is served."""
    name = settings.node.id or f"{platform.node()}-{served.rpartition(':')[2]}"
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)[:64]
