"""How many executions a tenant may begin a minute (SPEC section 14, docs/decisions/0109).

What counts is in a window of the process, or in one over all processes (`rate_sharing`).
"""

import asyncio
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

MOST_AT_ONCE = 1_000
"""No turn begins more of its own accord: with so many left nothing is held back."""

Tell = Callable[[str, int], None]
"""Is told of each tenant of which something is held back or refused, and of its limit."""


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
        """By what the tenant of this job may begin few executions now, or none; None: as many as it likes."""
        line = self._line_of(job_key)
        if line is None:
            return None
        now = self._clock.now().steady
        left = line.left(now)
        return None if left >= MOST_AT_ONCE else ReachedLimit(NAME, line.limit.count, line.wait(now), left)

    async def ask(self, job_key: str) -> None:
        """What other processes do not use comes here, or `hold` says for how long none is free.

        Returns at once where there are permits at hand, or it is known that nobody has any.
        """
        line = self._line_of(job_key)
        if line is not None:
            await line.ask(self._clock)

    def line_up(self, job_key: str) -> int:
        """When a job that was held back is to look again (in ms), as something of it stays due.

        They get their moments in the order of asking, as far apart as the limit has them.
        """
        line = self._line_of(job_key)
        if line is None:
            return LEAST_PAUSE_MS
        self._tell(line.tenant, line.limit.count)
        return line.line_up(self._clock.now().steady)

    def refuse(self, job_key: str) -> None:
        """A trigger was refused by what `hold` gave; the moments of those in line stay what they are."""
        line = self._line_of(job_key)
        if line is not None:
            self._tell(line.tenant, line.limit.count)

    def count(self, job_key: str, number: int) -> None:
        """So many executions of the job have begun."""
        line = self._line_of(job_key)
        if line is not None:
            line.count(number, self._clock.now().steady)

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
        self._full_until = self._sure_until = self._next = self._asked = self._callers = 0
        self._asking = asyncio.Lock()
        self._is_soon = False
        self._minute = self._begun = 0

    def left(self, now: int) -> int:
        """So many may begin now."""
        if now < self._full_until:
            return 0
        wait = self._window.wait(self.limit, now)
        if not wait:
            return self._window.room(self.limit, now)
        left = self._borrow(now)
        if not left:
            self._fill(now, max(wait, LEAST_PAUSE_MS))
        return left

    async def ask(self, clock: Clock) -> None:
        """Callers who come meanwhile are asked for together. No await follows a permit that was found."""
        self._callers += 1
        try:
            if self._lacks(clock.now().steady):
                async with self._asking:
                    if self._lacks(clock.now().steady):
                        wait = await self._window.ask(self.limit, self._callers)
                        if wait is not None:
                            self._fill(clock.now().steady, wait)
                            self._sure_until = self._full_until
        finally:
            self._callers -= 1

    def _lacks(self, now: int) -> bool:
        """Whether others may have what this process has not."""
        if now < self._sure_until:
            return False
        if self._window.wait(self.limit, now):
            return True
        self._full_until = 0  # there was less when it was told
        return False

    def _fill(self, now: int, wait: int) -> None:
        self._full_until = now + wait
        self._asked, self._is_soon = 0, wait <= ASK_AGAIN_MS

    def wait(self, now: int) -> int:
        """When a caller is to ask again: as soon as a permit is free, where all are used."""
        return self._full_until - now if now < self._full_until else self._apart

    def want(self, now: int) -> None:
        """One more waits for room."""
        self._asked += 1
        self._window.want(min(self._asked, self.limit.count), now)

    def line_up(self, now: int) -> int:
        self.want(now)
        if self._is_soon and self._asked <= MOST_SOON:  # other processes may have what it lacks
            return max(self._full_until - now, 1)
        self._next = max(self._next, self._full_until) + self._apart
        return min(self._next - self._apart - now, LONGEST_PAUSE_MS)

    def count(self, number: int, now: int) -> None:
        for _ in range(number):
            self._window.take(now)
        self._turn(now)
        self._begun += number

    def _borrow(self, now: int) -> int:
        """How many may begin whatever other processes do, as they are the first in this one for a while."""
        self._turn(now)
        may = max(self.limit.count // BORROWED, 1) - self._begun
        if may <= 0 or not self._window.lacks_share:
            return 0
        self._window.want(1, now)
        return may

    def _turn(self, now: int) -> None:
        if now // MINUTE != self._minute:
            self._minute, self._begun = now // MINUTE, 0
