"""What the host of a process is on every placement: its jobs, its effects, how far its start or stop is."""

from scheduler_service.hosts.effects import EffectHandlers
from scheduler_service.hosts.host_parts import HostParts
from scheduler_service.hosts.job_cache import JobCache
from scheduler_service.hosts.tasks import Tasks


class Host:
    """What figures and readiness look at. `tasks` are turns that go on to their end."""

    _is_ready = False
    _is_draining = False

    def __init__(self, parts: HostParts, *, jobs: JobCache, effects: EffectHandlers, tasks: Tasks) -> None:
        self._history = parts.history
        self._clock = parts.clock
        self._log = parts.log
        self._jobs = jobs
        self._tasks = tasks
        self.effects = effects
        self.notifications = effects.notifications

    @property
    def is_ready(self) -> bool:
        """Whether the host has recovered and takes firings."""
        return self._is_ready

    @property
    def is_draining(self) -> bool:
        """Whether the host is stopping."""
        return self._is_draining

    @property
    def jobs_held(self) -> int:
        """How many jobs are in memory."""
        return len(self._jobs)

    @property
    def running(self) -> int:
        """How many jobs have executions that run or wait for a retry."""
        return self._jobs.live

    @property
    def open_bytes(self) -> int:
        """How much open executions keep in memory (`hosts.open_bytes`)."""
        return self._jobs.open_bytes.total

    @property
    def tasks_running(self) -> int:
        """How many turns are under way that go on to their end."""
        return len(self._tasks)
