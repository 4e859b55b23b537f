"""The limits of tenants as the settings have them, and what holds a process to them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from scheduler_service.ports.catalogue import JOBS, WAITS
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.log import Log
from scheduler_service.services.rate_windows import ProcessWindow, RateWindow
from scheduler_service.services.tenant_execution_rates import NAME, ExecutionRates
from scheduler_service.settings import Settings
from scheduler_service.telemetry.log_summaries import Tally
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.metric_list import Sample

HISTORY = "tenant_history_executions"
WindowOf = Callable[[str, str], ProcessWindow]


class TenantLimit(msgspec.Struct, frozen=True):
    """One limit: of tenants that have their own, and of all others; 0: none."""

    name: str
    own: Mapping[str, int]
    usual: int

    def of(self, tenant: str) -> int:
        """That of a tenant."""
        return self.own.get(tenant, self.usual)

    @property
    def is_set(self) -> bool:
        """Whether anybody has it."""
        return self.usual > 0 or any(self.own.values())


def read_limit(settings: Settings, name: str) -> TenantLimit:
    """The limit of this name in `limits`, as `tenant_jobs`."""
    member = name.removeprefix("tenant_")
    given = {tenant: getattr(one.limits, member) for tenant, one in settings.tenants.items()}
    own = {tenant: value for tenant, value in given.items() if value is not None}
    return TenantLimit(name, own, getattr(settings.limits, name))


def limits_of(settings: Settings, tenant: str) -> Mapping[str, int]:
    """Those that this tenant has, by name."""
    found = {name: read_limit(settings, name).of(tenant) for name in (JOBS, NAME, WAITS, HISTORY)}
    return {name: value for name, value in found.items() if value}


def make_rates(
    settings: Settings, *, clock: Clock, reached: "Reached", window_of: WindowOf | None
) -> ExecutionRates | None:
    """The limits of executions a minute; None: nobody has one. `window_of`: over several processes."""
    limit = read_limit(settings, NAME)
    if not limit.is_set:
        return None
    return ExecutionRates(
        limits=limit.own,
        usual=limit.usual,
        clock=clock,
        tell=lambda tenant, value: reached.note(NAME, tenant, value),
        window_of=window_of or (lambda *_: RateWindow()),
    )


class Reached:
    """Tells of each tenant and limit when it is reached; what follows is counted, in a line now and then."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._counts: Counter[str] = Counter()

    def note(self, name: str, tenant: str, value: int) -> None:
        """Something of the tenant was refused, or has to wait."""
        self._counts[name] += 1
        tally = self._tallies.get((name, tenant))
        if tally is None:
            tally = self._tallies[name, tenant] = Tally("tenant_limited", log=self._log)
        tally.count("times", tenant=tenant, limit=name, value=value)

    def samples(self) -> Iterator[Sample]:
        """How often each limit was reached, of all tenants together."""
        for name in (JOBS, NAME, WAITS):
            yield Sample(metric_list.TENANT_LIMITS.name, (name,), self._counts[name])
