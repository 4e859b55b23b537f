"""How many executions a tenant may begin a minute (SPEC section 14, docs/decisions/0109).

What counts is in a window of the process, or in one over all processes (`rate_sharing`).
"""

from collections.abc import Callable, Mapping

from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.registered_services import RateLimit
from scheduler_service.domain.replies import ReachedLimit
from scheduler_service.ports.clock import Clock
from scheduler_service.services.rate_sharing import ASK_AGAIN_MS
from scheduler_service.services.rate_windows import ProcessWindow, RateWindow

NAME = "tenant_executions_per_minute"
EXECUTIONS = ":executions"
"""The name under which they are counted; no service can have it."""
LEAST_PAUSE_MS, LONGEST_PAUSE_MS = 100, 10 * SECOND
"""Who is held back looks again after so long. At the longest, as others may need their places no more."""
MOST_SOON = 100
"""So many look again together, where there may be room within a moment."""
BORROWED = 16
"""This part of a limit a process may use before it has heard what others use: so one that has been idle
begins at once. Each process may exceed a limit by that, once in a minute."""

Tell = Callable[[str, int], None]
"""Is told of each tenant that is held back, and of its limit."""


class ExecutionRates:
    """The limits of all tenants in one process; `limits` is executions a minute by tenant.

    Tenants that are not in `limits` have `usual`; 0: no limit. `window_of` gives what counts for a tenant.
    """

    def __init__(
        self,
        *,
        limits: Mapping[str, int],
        usual: int,
        clock: Clock,
        tell: Tell,
        window_of: Callable[[str, str], ProcessWindow] = lambda *_: RateWindow(),
    ) -> None:
        self._limits = limits
        self._usual = usual
        self._clock = clock
        self._tell = tell
        self._window_of = window_of
        self._lines: dict[str, _TenantLine | None] = {}

    def hold(self, job_key: str) -> ReachedLimit | None:
        """By what the tenant of this job may begin no execution now; None: it may.

        Those that are to ask again get their moments in the order of asking, as far apart as it has them.
        """
        line = self._line_of(job_key)
        pause = 0 if line is None else line.pause(self._clock.now().steady)
        if line is None or not pause:
            return None
        self._tell(line.tenant, line.limit.count)
        return ReachedLimit(NAME, line.limit.count, pause)

    def count(self, job_key: str, number: int) -> None:
        """So many executions of the job have begun."""
        line = self._line_of(job_key)
        if line is not None:
            line.count(number, self._clock.now().steady)

    def used(self, tenant: str) -> int:
        """How many this process has counted within a minute."""
        line = self._lines.get(tenant)
        return 0 if line is None else line.used(self._clock.now().steady)

    def limit_of(self, tenant: str) -> int:
        """Executions a minute; 0: no limit."""
        return self._limits.get(tenant, self._usual)

    def _line_of(self, job_key: str) -> "_TenantLine | None":
        tenant = read_job_key(job_key)[0]
        if tenant not in self._lines:
            most = self.limit_of(tenant)
            line = None
            if most:
                line = _TenantLine(tenant, RateLimit(most, MINUTE), self._window_of(tenant, EXECUTIONS))
            self._lines[tenant] = line
        return self._lines[tenant]


class _TenantLine:
    """One tenant: its window, until when it is full, and the moment that the next one in line gets."""

    def __init__(self, tenant: str, limit: RateLimit, window: ProcessWindow) -> None:
        self.tenant = tenant
        self.limit = limit
        self._window = window
        self._apart = max(limit.per // limit.count, 1)
        self._full_until = self._next = self._asked = 0
        self._is_soon = False
        self._minute, self._counts = 0, [0, 0]

    def pause(self, now: int) -> int:
        if now >= self._full_until:
            wait = self._window.wait(self.limit, now)
            if not wait or self._may_borrow(now):
                return 0
            self._full_until = now + max(wait, LEAST_PAUSE_MS)
            self._asked, self._is_soon = 0, wait <= ASK_AGAIN_MS
        self._asked += 1
        self._window.want(min(self._asked, self.limit.count), now)
        if self._is_soon and self._asked <= MOST_SOON:  # other processes may have what it lacks
            return self._full_until - now
        self._next = max(self._next, self._full_until) + self._apart
        return min(self._next - self._apart - now, LONGEST_PAUSE_MS)

    def count(self, number: int, now: int) -> None:
        for _ in range(number):
            self._window.take(now)
        self._turn(now)
        self._counts[1] += number

    def used(self, now: int) -> int:
        """Of the minute before, in parts: that is near enough for who looks."""
        self._turn(now)
        past = now % MINUTE
        return min(self._counts[1] + self._counts[0] * (MINUTE - past) // MINUTE, self.limit.count)

    def _may_borrow(self, now: int) -> bool:
        """Whether it is the first in this process for a while, whatever other processes do."""
        self._turn(now)
        may = getattr(self._window, "held", 1) == 0 and self._counts[1] < max(self.limit.count // BORROWED, 1)
        if may:
            self._window.want(1, now)
        return may

    def _turn(self, now: int) -> None:
        minute = now // MINUTE
        if minute != self._minute:
            self._counts = [self._counts[1] if minute == self._minute + 1 else 0, 0]
            self._minute = minute
