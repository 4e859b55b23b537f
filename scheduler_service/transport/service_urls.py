"""Resolves `service:` URLs: service names to base addresses, also through Dapr service invocation."""

import re
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from scheduler_service.domain.job_key import DEFAULT_TENANT, read_job_key
from scheduler_service.domain.wire import Answer, Fault, FaultKind, Headers, OutboundRequest, Outcome
from scheduler_service.language.urls import has_dot_segment, is_service_name
from scheduler_service.ports.sending import CallingSender, MayGo, always
from scheduler_service.transport.addresses import TargetAddress, read_url, write_path
from scheduler_service.transport.egress_guard import Trust
from scheduler_service.transport.errors import NoInstance, NotBack, RefusedTarget
from scheduler_service.transport.sidecar_exchanges import show_token

_SERVICE = re.compile(r"(?i:service):(?://([^/?#]*))?(/[^#]*)?(?:#.*)?", re.DOTALL)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
NOT_DELIVERED = "ERR_DIRECT_INVOKE"
INTERNAL_SERVER_ERROR = 500


class Directory(Protocol):
    """The base addresses of services; one of another tenant than `default` is named `tenant|name`."""

    def address(self, name: str) -> str | None:
        """The `http(s)://host[:port][/base]` of service `name`, or None. Raises nothing."""

    def wait(self, name: str) -> int:
        """How long (ms) a call waits in all for an instance of `name`; it may fall. Raises nothing."""

    def signing(self, name: str) -> str:
        """The secret that signs calls of service `name`; empty: none. Raises nothing."""

    def vouched(self, name: str) -> bool | None:
        """Whether the address of service `name` may be private; None: nothing is noted. Raises nothing."""


class Located(msgspec.Struct, frozen=True, gc=False):
    """What a `service:` URL reaches, and who vouches for it, whatever it resolves to.

    `by_sidecar`: the sidecar is called, which finds the service, and is to be shown the `credentials`.
    `sign`: the secret that signs the service's calls; empty: none.
    """

    target: TargetAddress
    trust: Trust
    by_sidecar: bool = False
    credentials: Headers = ()
    sign: str = ""


class ServiceUrls:
    """Turns the `service:` forms of SPEC section 9 into targets.

    `service:/path` and `service://{serviceName}/path` resolve to `owner_url`, this scheduler: in the URLs of
    jobs that a service owns, its name is already filled in. `{serviceGateway}` resolves to `gateway`.

    `trust_of` says of a base address, and of what was noted when it was registered, who vouches for it. One
    for which nobody does was judged when it was registered, but its name may lead elsewhere by now: it is
    judged like a job's target.
    """

    def __init__(
        self,
        *,
        directory: Directory,
        owner_url: str | None,
        gateway: str | None,
        trust_of: Callable[[str, bool | None], Trust],
        sidecar: "InvocationDirectory | None" = None,
    ) -> None:
        self._directory = directory
        self._sidecar = sidecar
        self._trust_of = trust_of
        self._owner_url = owner_url
        self._gateway = gateway

    def locate(self, url: str, base: str = "", noted: bool | None = None) -> Located:
        """The target of a `service:` URL. Raises NoInstance for an unknown service, NotBack for one whose
        instances are waited for, RefusedTarget for a malformed one.

        `base` is the address of an instance that was already chosen, by whoever knows, too, what signs its
        calls, and what was `noted` of who registered it; empty: the directory is consulted.
        """
        match = None if _FORBIDDEN.search(url) else _SERVICE.fullmatch(url)
        if match is None:
            raise RefusedTarget(
                "A service URL is service://NAME/PATH or service:/PATH, percent-encoded: correct it."
            )
        name, path = match.group(1), match.group(2) or "/"
        if has_dot_segment(path.partition("?")[0]):
            raise RefusedTarget("A service URL may not have . or .. as a path segment: write the path out.")
        given, trust = (base, self._trust_of(base, noted)) if base else self._base(name)
        found = read_url(given)
        whole = TargetAddress(found.site, found.path.partition("?")[0].rstrip("/") + write_path(path))
        is_known = name is not None and not base and is_service_name(read_job_key(name)[1])
        sign = self._directory.signing(name or "") if is_known else ""
        if self._sidecar is None or given != self._sidecar.base_of(name or ""):
            return Located(whole, trust, sign=sign)
        return Located(whole, trust, by_sidecar=True, credentials=self._sidecar.credentials, sign=sign)

    def wait(self, url: str) -> int:
        """How long (ms) a call of a `service:` URL waits in all for an instance that it reaches."""
        match = _SERVICE.fullmatch(url)
        name = None if match is None else match.group(1)
        return self._directory.wait(name) if name and is_service_name(read_job_key(name)[1]) else 0

    def _base(self, name: str | None) -> tuple[str, Trust]:
        """The base address behind a name, and who vouches for it."""
        match name:
            case None | "{serviceName}":
                return _require(self._owner_url, "The job's owner", "server.external_url"), Trust.OWN
            case "{serviceGateway}":
                return _require(self._gateway, "The service gateway", "services.gateway"), Trust.OWN
        own = read_job_key(name)[1]
        if not is_service_name(own):
            raise RefusedTarget(f"{own[:80]!r} is not a service name: use letters, digits, '_', '.' and '-'.")
        address = self._directory.address(name)
        if not address and self._directory.wait(name):
            raise NotBack(f"No instance of the service {own!r} takes work: is one running?")
        found = _require(address, f"The service {own!r}", "services.static")
        return found, self._trust_of(found, self._directory.vouched(name))


class InvocationDirectory:
    """Resolves every service: those of `known` to their address, all others to the sidecar on `http_port`.

    `token` is that of the sidecar's API; None: it needs none.
    """

    def __init__(self, *, known: Directory, http_port: int, token: str | None = None) -> None:
        self._known = known
        self.base = f"http://127.0.0.1:{http_port}/v1.0/invoke"
        self.credentials = show_token(token)

    def address(self, name: str) -> str | None:
        """The base address of service `name`; None: its own instances are waited for. Raises nothing."""
        known = self._known.address(name)
        is_hidden = known or read_job_key(name)[0] != DEFAULT_TENANT or self._known.wait(name)
        return known if is_hidden else self.base_of(name)

    def base_of(self, name: str) -> str:
        """The base address at which the sidecar calls service `name`."""
        return f"{self.base}/{name}/method"

    def wait(self, name: str) -> int:
        """How long (ms) an instance that has registered is waited for; the sidecar's own: not."""
        return self._known.wait(name)

    def signing(self, name: str) -> str:
        """The secret that signs calls of service `name`, if it is registered."""
        return self._known.signing(name)

    def vouched(self, name: str) -> bool | None:
        """Whether its address may be private, if it is registered."""
        return self._known.vouched(name)


class InvocationSender:
    """`ports.Sender` that turns the sidecar's own "target not reached" answer into a Fault."""

    def __init__(self, *, sender: CallingSender) -> None:
        self._sender = sender

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The target's answer, or why there is none. Raises nothing but CancelledError and NotSent."""
        outcome = await self._sender.send(request, may_go)
        if not isinstance(outcome, Answer) or outcome.status != INTERNAL_SERVER_ERROR:
            return outcome
        if request.url[:8].lower() != "service:" or not _is_from_sidecar(outcome.body):
            return outcome
        return Fault(
            FaultKind.CONNECT,
            f"{request.url.partition('?')[0]} was not delivered: the sidecar found no such service, or could "
            "not reach it; is it running under this app id?",
            outcome.elapsed,
        )

    def open_calls(self) -> Mapping[str, Mapping[str, int]]:
        """Those of the sender below it."""
        return self._sender.open_calls()

    async def close(self) -> None:
        """Closes the sender below it."""
        await self._sender.close()


def _require(base: str | None, what: str, setting: str) -> str:
    if not base:
        raise NoInstance(f"{what} has no address: register an instance or set {setting}.")
    return base


class _SidecarError(msgspec.Struct):
    """An error document of daprd itself."""

    error_code: str = msgspec.field(name="errorCode", default="")


def _is_from_sidecar(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body, type=_SidecarError).error_code == NOT_DELIVERED
    except msgspec.DecodeError:
        return False
