"""What `GET /nodes` says of a service on one machine: one node, whatever the number of its processes."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from scheduler_service import __version__
from scheduler_service.app.data_folder import format_of
from scheduler_service.app.node_figures import own_status, process_wire, versions_of
from scheduler_service.app.store_opening import StoreWatch
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.domain.moments import rfc3339
from scheduler_service.hosts.embedded.host import EmbeddedHost
from scheduler_service.hosts.processes.remote_shard import RemoteShard
from scheduler_service.hosts.processes.rpc_methods import ShardStatus
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.ports.clock import Clock
from scheduler_service.telemetry.trouble import WorkerStores


class OwnNode(msgspec.Struct, frozen=True, kw_only=True):
    """A service as the only node of its kind; `began` is the wall ms at which its process did.

    `kept` is what it keeps, as `known_formats` names it.
    """

    node_id: str
    address: str
    began: int
    kept: Sequence[str]
    host: EmbeddedHost
    remotes: Sequence[RemoteShard]
    database: HistoryDatabase
    watch: StoreWatch
    worker_stores: WorkerStores
    telemetry: Telemetry
    clock: Clock

    async def list(self) -> Sequence[Mapping[str, object]]:
        """The answer of `GET /nodes`. Worker processes that do not answer are named without figures."""
        others = await asyncio.gather(*(remote.status() for remote in self.remotes), return_exceptions=True)
        state = "draining" if self.host.is_draining else "running"
        own = own_status(
            held=self.host.jobs_held,
            running=self.host.running,
            started_at=self.began,
            standstills=self.telemetry.standstills,
        )
        found = [own, *(one if isinstance(one, ShardStatus) else ShardStatus() for one in others)]
        return [
            {
                "nodeId": self.node_id,
                "address": self.address,
                "version": __version__,
                "state": state,
                "startedAt": rfc3339(self.began),
                "lastHeartbeat": rfc3339(self.clock.now().wall),
                "jobsHeld": sum(one.held for one in found),
                "running": sum(one.running for one in found),
                "processes": [
                    process_wire(shard, one, state if one.pid else "missing", self._lacks(shard))
                    for shard, one in enumerate(found)
                ],
                "versions": versions_of([self.database]),
                "formats": {name: format_of(name) for name in self.kept},
            }
        ]

    def _lacks(self, shard: int) -> Sequence[str]:
        """What a process cannot write now."""
        if shard:
            return self.worker_stores.lacks(shard)
        return [*self.watch.missing, *self.telemetry.history_watch.lacks()]
