"""The figures of a process: of its parts for SIGUSR1, of itself and what it stands on for `GET /nodes`."""

import asyncio
import os
import platform
from collections.abc import Mapping, Sequence

import msgspec

from scheduler_service import __version__
from scheduler_service.app.data_folder import format_of
from scheduler_service.app.store_opening import StoreWatch
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.domain.moments import rfc3339
from scheduler_service.hosts.embedded.host import EmbeddedHost
from scheduler_service.hosts.host import Host
from scheduler_service.hosts.processes.remote_shard import RemoteShard
from scheduler_service.hosts.processes.rpc_methods import ShardStatus
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.persistence.sql.database import Database
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.sending import CallingSender
from scheduler_service.telemetry.trouble import Standstills, WorkerStores


def own_status(*, held: int, running: int, started_at: int, standstills: Standstills) -> ShardStatus:
    """The figures of this process, which began at `started_at` (wall ms)."""
    longest = round(standstills.longest * 1_000)
    return ShardStatus(held, running, os.getpid(), started_at, longest)


def process_wire(
    shard: int, status: ShardStatus, state: str, missing: Sequence[str] = ()
) -> Mapping[str, object]:
    """A process of a node; `missing` is what it cannot write.

    One that does not answer, or starts, has neither id nor moment.
    """
    return {
        "shard": shard,
        "pid": status.pid or None,
        "state": state,
        "startedAt": rfc3339(status.started_at) if status.pid else None,
        "jobsHeld": status.held,
        "running": status.running,
        "loopHeldMs": status.loop_held,
        "missing": list(missing),
    }


def versions_of(databases: Sequence[Database], further: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """The versions of this program, of Python and of the databases that have been used, by name."""
    found = {"punctual": __version__, "python": platform.python_version()}
    for database in databases:
        name, version = database.version
        found[name] = version
    return found | dict(further or {})


def describe_parts(
    host: Host, sender: CallingSender, history: HistoryWriter, *, commits_waiting: int
) -> dict[str, Mapping[str, object]]:
    """By part; numbers and names of origins alone."""
    effects = host.effects
    batches, size = history.waiting
    return {
        "jobs": {
            "held": host.jobs_held,
            "running": host.running,
            "calls": len(effects.calls),
            "parts": len(effects.parts),
            "notifications": len(effects.notifications),
        },
        "calls": {"origins": sender.open_calls()},
        "store": {"commitsWaiting": commits_waiting},
        "history": {"batchesWaiting": batches, "bytesWaiting": size},
    }


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
