"""The figures of a process: of its parts for SIGUSR1, of itself and what it stands on for `GET /nodes`."""

import os
import platform
from collections.abc import Mapping, Sequence

from scheduler_service import __version__
from scheduler_service.domain.moments import rfc3339
from scheduler_service.hosts.host import Host, HostStatus
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.persistence.sql.database import Database
from scheduler_service.ports.sending import CallingSender
from scheduler_service.telemetry.trouble import Standstills


def own_status(*, held: int, running: int, started_at: int, standstills: Standstills) -> HostStatus:
    """The figures of this process, which began at `started_at` (wall ms)."""
    longest = round(standstills.longest * 1_000)
    return HostStatus(held, running, os.getpid(), started_at, longest)


def process_wire(
    shard: int, status: HostStatus, state: str, missing: Sequence[str] = ()
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
            "calls": len(effects.calls) - effects.calls.parts,
            "parts": effects.calls.parts,
            "notifications": len(effects.notifications),
        },
        "calls": {"origins": sender.open_calls()},
        "store": {"commitsWaiting": commits_waiting},
        "history": {"batchesWaiting": batches, "bytesWaiting": size},
    }
