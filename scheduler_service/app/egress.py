"""Which addresses jobs may reach: the egress policy of the settings, and the sender that keeps to it."""

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from scheduler_service.app.process_setup import current_limit, divide
from scheduler_service.pacing.waiting_room import Room
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.log import Log
from scheduler_service.security.signing import RequestSigner
from scheduler_service.settings import LoadedSettings, SettingsError
from scheduler_service.settings.model import ServicesSettings
from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.client_certificates import ClientCertificate, ClientCertificates
from scheduler_service.transport.dns_lookups import SystemResolver
from scheduler_service.transport.egress_guard import (
    EgressPolicy,
    Guard,
    Route,
    Trust,
    judge_always,
    judge_literal,
    judge_vouched,
)
from scheduler_service.transport.errors import PolicyError, RefusedTarget
from scheduler_service.transport.name_check import NameCheck
from scheduler_service.transport.sender import HttpSender, SystemFunction
from scheduler_service.transport.service_urls import Directory, InvocationDirectory

LOOPBACK = ("127.0.0.0/8", "::1")


def egress_of(loaded: LoadedSettings, *, is_node: bool = False) -> EgressPolicy:
    """The egress policy: without any configuration loopback is allowed, else what the settings say.

    Either way but for the ports of its own sidecar, where this is a node of a cluster.
    """
    allow, deny = entries_of(loaded)
    dapr = loaded.settings.dapr
    ports = (dapr.http_port, dapr.grpc_port, dapr.app_port) if is_node else ()
    return EgressPolicy(allow=allow, deny=deny, sidecar_ports=ports)


def entries_of(loaded: LoadedSettings) -> tuple[Sequence[str], Sequence[str]]:
    """What is allowed and denied beside public addresses."""
    egress = loaded.settings.egress
    if egress is not None:
        return egress.allow, egress.deny
    return () if loaded.has_file else LOOPBACK, ()


def judge_of(loaded: LoadedSettings, *, is_node: bool) -> Callable[[str], str | None]:
    """Judges the host of a literal URL of a definition by the egress policy."""
    return partial(judge_literal, egress_of(loaded, is_node=is_node))


def log_egress(loaded: LoadedSettings, log: Log) -> None:
    """The first log line: which addresses jobs may reach."""
    (allow, deny), note = entries_of(loaded), {}
    if loaded.settings.egress is None and not loaded.has_file:
        note = {"note": "no configuration: loopback is allowed; set egress.allow"}
    log("egress_set", allow=list(allow), deny=list(deny), **note)


def name_check_of(loaded: LoadedSettings) -> NameCheck:
    """Judges host names of definitions that are posted."""
    return NameCheck(policy=egress_of(loaded), resolver=SystemResolver(at_once=4, most=4, spare=0))


def admit_of(loaded: LoadedSettings, *, is_node: bool = False) -> Callable[[str, bool], Awaitable[None]]:
    """Judges the address under which somebody registers, and whether a key vouches for it; raises
    TransportError.

    Of one that is vouched for what `egress.deny` and SPEC section 9 refuse: names are judged again when they
    are connected to. Any other as the target of a job.
    """
    policy = egress_of(loaded, is_node=is_node)
    guard = Guard(policy=policy, resolver=SystemResolver())

    async def admit(address: str, vouched: bool) -> None:
        if not vouched:
            await guard.admit(Route(read_url(address).site, Trust.NONE))
        elif reason := judge_vouched(policy, address):
            raise RefusedTarget(f"{address[:140]} is refused: {reason}.")

    return admit


def check_static(settings: ServicesSettings) -> None:
    """Raises SettingsError for a literal address of `services.static` that is refused whatever they say."""
    for name, bases in settings.static.items():
        for base in bases:
            if reason := judge_always(base):
                raise SettingsError(f"services.static.{name}: {base[:140]} is refused: {reason}.")


def trust_of(loaded: LoadedSettings, sidecar: str | None = None) -> Callable[[str, bool | None], Trust]:
    """Who vouches for the base address of a service, wherever its name leads.

    It says so of what was noted when the address was registered (`Service.vouched`). Without that, whoever
    may register could name a host that leads elsewhere after it was judged; only the settings' own addresses,
    and the sidecar, are trusted.
    """
    has_key = loaded.settings.server.key is not None
    known = {base.rstrip("/") for bases in loaded.settings.services.static.values() for base in bases}
    begin = None if sidecar is None else f"{sidecar}/"

    def find_trust(address: str, noted: bool | None) -> Trust:
        if address.rstrip("/") in known or (begin is not None and address.startswith(begin)):
            return Trust.OWN
        return Trust.VOUCHED if (has_key if noted is None else noted) else Trust.NONE

    return find_trust


def certificates_of(loaded: LoadedSettings, log: Log) -> ClientCertificates:
    """What calls show to targets that ask for it. Raises SettingsError."""
    egress = loaded.settings.egress
    given = () if egress is None else egress.client_certificates
    found = [ClientCertificate(one.origin, one.cert, one.key, one.ca) for one in given]
    try:
        return ClientCertificates(found, trust=ssl.create_default_context, log=log)
    except PolicyError as error:
        raise SettingsError(f"egress.client_certificates: {error}") from None


def make_sender(
    loaded: LoadedSettings,
    served: str,
    *,
    directory: Directory,
    system: Mapping[str, SystemFunction],
    clock: Clock,
    log: Log,
    room: Room,
    signer: RequestSigner | None,
    listeners: int = 1,
    sidecar: InvocationDirectory | None = None,
) -> HttpSender:
    """The sender; `directory` has the addresses of services, `clock` is the host's.

    Its process has so many `listeners`, whose callers have a share of the descriptors. `sidecar` has the
    addresses of services that this node's own daprd finds. `room`, one for the process, is that of large
    responses; `signer` has the secrets of all tenants. Raises SettingsError.
    """
    settings = loaded.settings
    check_static(settings.services)
    return HttpSender(
        policy=egress_of(loaded, is_node=sidecar is not None),
        directory=directory,
        resolver=SystemResolver(),
        response_bytes=settings.limits.response_bytes,
        owner_url=served,
        gateway=settings.services.gateway,
        system=system,
        clock=clock,
        trust_of=trust_of(loaded, None if sidecar is None else sidecar.base),
        sidecar=sidecar,
        descriptors=divide(
            current_limit(), listeners=listeners, connections=settings.limits.connections
        ).calls,
        log=log,
        room=room,
        signer=signer,
        certificates=certificates_of(loaded, log),
    )
