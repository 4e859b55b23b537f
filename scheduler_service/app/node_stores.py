"""What a node of a cluster opens before its host is built, and the services that are kept there."""

import asyncio
from pathlib import Path

import msgspec

from scheduler_service.app.cluster_join import join_cluster, node_id, shared_url
from scheduler_service.app.data_folder import history_address, keep_private
from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.dapr.node import Cluster
from scheduler_service.hosts.dapr.node_events import NodeEvents
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.sql_cluster.database import SharedDatabase
from scheduler_service.persistence.sql_cluster.events import SharedEvents
from scheduler_service.persistence.sql_cluster.queues import ClusterQueues
from scheduler_service.persistence.sql_cluster.rates import SqlRates
from scheduler_service.persistence.sql_cluster.shared_registry import SqlSharedRegistry
from scheduler_service.ports.log import Log
from scheduler_service.services.instances import Instances
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.services.queue_watch import DOWNTIME_MS, QueueWatch
from scheduler_service.services.rate_sharing import RateSharing
from scheduler_service.services.shared_view import SharedView
from scheduler_service.settings import Settings
from scheduler_service.telemetry.tally import Tally
from scheduler_service.transport.service_urls import InvocationDirectory


class NodeStores(msgspec.Struct, frozen=True):
    """The shared database and its clock, the cluster in it that the node has joined, and the history."""

    shared: SharedDatabase
    clock: SystemClock
    cluster: Cluster
    database: HistoryDatabase


async def open_stores(settings: Settings, served: str, log: Log) -> NodeStores:
    """Opens the databases, and joins the cluster at the address `served`.

    Raises StoreError where they cannot be used or a node of this name is running, SettingsError.
    """
    folder = Path(settings.store.data)
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    await asyncio.to_thread(keep_private, folder, log)
    shared = await SharedDatabase.open(url=shared_url(settings.database.url, folder))
    clock = SystemClock(skew=shared.clock_skew, on_step=_ignore_step)
    cluster = await join_cluster(shared, clock, node_id(settings, served), served, log)
    database = await asyncio.to_thread(
        HistoryDatabase, url=history_address(settings, folder), durability=settings.store.durability
    )
    return NodeStores(shared, clock, cluster, database)


def make_services(
    settings: Settings, stores: NodeStores, log: Log
) -> tuple[ServiceRegistry, InvocationDirectory]:
    """The services that are known, and their addresses: of one that is not known, that of the sidecar."""

    def share(instances: Instances) -> SharedView:
        heartbeat = stores.cluster.heartbeat
        return SharedView(
            shared=SqlSharedRegistry(database=stores.shared),
            instances=instances,
            clock=stores.clock,
            node=heartbeat.holder.node,
            others=lambda: heartbeat.others,
            log=log,
        )

    holder = stores.cluster.heartbeat.holder
    table = ClusterQueues(database=stores.shared, downtime=DOWNTIME_MS)
    queues = PullQueues(table=table, clock=stores.clock, log=log)
    services = ServiceRegistry(
        database=stores.database,
        settings=settings.services,
        keeps=settings.defaults.on_change == "keep",
        clock=stores.clock,
        tenant=DEFAULT_TENANT,
        log=log,
        queues=queues,
        queue_watch=QueueWatch(queues=queues, table=table, clock=stores.clock, log=log),
        share=share,
        rates=RateSharing(
            shared=SqlRates(database=stores.shared),
            clock=stores.clock,
            holder=f"{holder.node} {holder.boot}",
            log=log,
        ),
    )
    dapr = settings.dapr
    directory = InvocationDirectory(known=services.directory, http_port=dapr.http_port, token=dapr.api_token)
    services.fall_back_to(directory.base_of)
    return services, directory


def make_events(stores: NodeStores, telemetry: Telemetry) -> NodeEvents:
    """The events of the cluster, at this node."""
    return NodeEvents(
        shared=SharedEvents(database=stores.shared),
        occurrences=telemetry.occurrences,
        clock=stores.clock,
        node=stores.cluster.heartbeat.holder.node,
        failed=Tally("events_not_shared", log=telemetry.log),
    )


async def _ignore_step(skew: int) -> None:
    """Steady time is the database's: each start reads anew how far this machine's clock is from it."""
