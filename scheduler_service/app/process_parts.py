"""The figures of a process's parts, for whoever asks what it is doing (SIGUSR1)."""

from collections.abc import Mapping
from typing import Protocol

from scheduler_service.hosts.effects import EffectHandlers
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.ports.sending import CallingSender


class WorkingHost(Protocol):
    """The host of this process."""

    @property
    def jobs_held(self) -> int:
        """How many jobs are in memory."""

    @property
    def running(self) -> int:
        """How many jobs have executions that run or wait for a retry."""

    @property
    def open_bytes(self) -> int:
        """How much open executions keep in memory."""

    @property
    def effects(self) -> EffectHandlers:
        """What is under way."""


def describe_parts(
    host: WorkingHost, sender: CallingSender, history: HistoryWriter, *, commits_waiting: int
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
