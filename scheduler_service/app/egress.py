"""Which addresses jobs and services may have, as the settings say (SPEC section 9)."""

from collections.abc import Awaitable, Callable

from scheduler_service.ports.log import Log
from scheduler_service.settings import Loaded
from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.guard import EgressPolicy
from scheduler_service.transport.resolver import Guard, Route, SystemResolver

LOOPBACK = ("127.0.0.0/8", "::1")


def egress_of(loaded: Loaded) -> EgressPolicy:
    """The egress policy: without any configuration loopback is allowed, else what the settings say."""
    egress = loaded.settings.egress
    if egress is None:
        return EgressPolicy(allow=() if loaded.has_file else LOOPBACK, deny=())
    return EgressPolicy(allow=egress.allow, deny=egress.deny)


def log_egress(loaded: Loaded, log: Log) -> None:
    """The first log line: which addresses jobs may reach."""
    egress = loaded.settings.egress
    if egress is None and not loaded.has_file:
        log("egress", allow=list(LOOPBACK), note="no configuration: loopback is allowed; set egress.allow")
    else:
        log("egress", allow=list(egress.allow if egress else ()), deny=list(egress.deny if egress else ()))


def admit_of(loaded: Loaded) -> Callable[[str], Awaitable[None]] | None:
    """Judges the address under which somebody registers; None where a key vouches for who does."""
    if loaded.settings.server.key is not None:
        return None
    guard = Guard(policy=egress_of(loaded), resolver=SystemResolver())

    async def admit(address: str) -> None:
        await guard.admit(Route(read_url(address).site, trusted=False))

    return admit
