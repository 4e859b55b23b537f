"""A table of services in dictionaries, and a clock that stands until it is moved."""

from collections.abc import Sequence

from scheduler_service.domain.moments import Now
from scheduler_service.domain.registered_services import Applied, Kind, Pause, Service
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.services import ServiceTable

START = 1_767_225_600_000


class StandingClock:
    """Both lines move together."""

    def __init__(self) -> None:
        self.steady = 0

    def now(self) -> Now:
        return Now(START + self.steady, self.steady)


async def tell_nobody(tenant: str, name: str) -> None:
    """There is one node."""


class MemoryTable(ServiceTable):
    """`ports.ServiceTable`; `is_down` makes every call fail.

    `writes` counts the calls that change something, `scans` the reads of what was done, one for each scan.
    """

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Service] = {}
        self.texts: dict[tuple[str, str], bytes] = {}
        self.notes: dict[tuple[str, str], Applied] = {}
        self.paused: dict[tuple[Kind, str, str], Pause] = {}
        self.is_down = False
        self.writes = 0
        self.scans = 0

    async def services(self) -> Sequence[Service]:
        self._check()
        return [self.rows[key] for key in sorted(self.rows)]

    async def timers(self, tenant: str, name: str) -> bytes:
        self._check()
        return self.texts.get((tenant, name), b"[]")

    async def declared_bytes(self, tenant: str, name: str) -> tuple[int, int]:
        self._check()
        return len(self.texts.get((tenant, name), b"")), sum(map(len, self.texts.values()))

    async def put(self, service: Service, timers: bytes | None = None) -> None:
        self._write()
        self.rows[service.tenant, service.name] = service
        if timers is not None:
            self.texts[service.tenant, service.name] = timers

    async def drop(self, tenant: str, name: str) -> None:
        self._write()
        self.rows.pop((tenant, name), None)
        self.texts.pop((tenant, name), None)
        self.notes = {
            key: one for key, one in self.notes.items() if (one.tenant, one.service) != (tenant, name)
        }

    async def applied(self, tenant: str, name: str) -> Sequence[Applied]:
        self._check()
        self.scans += 1
        mine = [one for one in self.notes.values() if (one.tenant, one.service) == (tenant, name)]
        return sorted(mine, key=lambda one: one.job_id)

    async def owner(self, tenant: str, job_id: str, uid: str) -> str | None:
        self._check()
        known = self.notes.get((tenant, job_id))
        return known.service if known is not None and known.uid == uid else None

    async def note(self, kept: Sequence[Applied], dropped: Sequence[Applied]) -> None:
        if not kept and not dropped:
            return
        self._write()
        for one in dropped:
            if self.notes.get((one.tenant, one.job_id), one).service == one.service:
                self.notes.pop((one.tenant, one.job_id), None)
        for one in kept:
            self.notes[one.tenant, one.job_id] = one

    async def pauses(self) -> Sequence[Pause]:
        self._check()
        return list(self.paused.values())

    async def pause(self, pause: Pause) -> None:
        self._write()
        self.paused.setdefault((pause.kind, pause.tenant, pause.name), pause)

    async def resume(self, kind: Kind, tenant: str, name: str) -> None:
        self._write()
        self.paused.pop((kind, tenant, name), None)

    def _check(self) -> None:
        if self.is_down:
            raise StoreUnavailable("the table is down")

    def _write(self) -> None:
        self._check()
        self.writes += 1
