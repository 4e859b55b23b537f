"""The egress policy: whether a target may be reached, decided on a host name and on what it resolved to."""

import enum
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Protocol

import msgspec

from scheduler_service.security.trusted_proxies import read_network
from scheduler_service.transport.addresses import Address, Site, read_url
from scheduler_service.transport.errors import (
    MachineExhausted,
    PolicyError,
    RefusedTarget,
    Unreached,
    is_exhausted,
)

Network = IPv4Network | IPv6Network
_GLOBAL_V6 = IPv6Network("2000::/3")
_LOOPBACK = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_LOOPBACK_NAMES = frozenset(
    {
        "localhost",
        "localhost.localdomain",
        "localhost6",
        "localhost6.localdomain6",
        "ip6-localhost",
        "ip6-loopback",
    }
)
_PATTERN = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")


def _by_network(kinds: Mapping[str, str]) -> tuple[tuple[Network, str], ...]:
    """(network, kind) for each network of each kind."""
    return tuple((ip_network(text), kind) for kind, texts in kinds.items() for text in texts.split())


# Refused whatever the settings say: link-local addresses, and those at which clouds hand out credentials.
_NEVER = _by_network(
    {
        "link-local": "169.254.0.0/16 fe80::/10",
        "cloud metadata": "100.100.100.200/32 192.0.0.192/32 168.63.129.16/32 fd00:ec2::/64 fd20:ce::254/128",
    }
)

# Not global unicast (IANA special-purpose registries): refused unless `egress.allow` covers them.
_SPECIAL = _by_network(
    {
        "loopback": "127.0.0.0/8 ::1/128",
        "unspecified": "0.0.0.0/8 ::/128",
        "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7 fec0::/10",
        "shared": "100.64.0.0/10",
        "reserved": "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 "
        "240.0.0.0/4 2001::/23 2001:db8::/32 3fff::/20",
        "multicast": "224.0.0.0/4 ff00::/8",
    }
)


class EgressPolicy:
    """What may be reached (SPEC section 9): a pure value, safe to share.

    `allow` and `deny` hold CIDR blocks, addresses, `host` or `*.host` (its subdomains, not itself); `deny`
    wins. Public addresses need no entry. Raises PolicyError for an entry that cannot be read. `sidecar_ports`
    are those of loopback at which a node's own sidecar would take any caller for the node.
    """

    def __init__(
        self, *, allow: Iterable[str], deny: Iterable[str], sidecar_ports: Collection[int] = ()
    ) -> None:
        self._allowed_networks, self._allowed_hosts = _read_entries("egress.allow", allow)
        self._denied_networks, self._denied_hosts = _read_entries("egress.deny", deny)
        self._sidecar_ports = frozenset(sidecar_ports)

    def refuse_name(self, host: str) -> str | None:
        """Why this host name (lower case) is refused before it is looked up, or None."""
        if reason := self.refuse_denied_name(host):
            return reason
        if host in _METADATA_NAMES:
            return "it is a cloud metadata service, which is always refused"
        if is_loopback_name(host) and not self._may_be_loopback(host):
            return "it is loopback; add it to egress.allow if this is intended"
        return None

    def refuse_denied_name(self, host: str) -> str | None:
        """Why this host name is refused to a service's own key too, or None."""
        return "egress.deny names it" if _matches(self._denied_hosts, host) else None

    def refuse_address(self, host: str, address: Address) -> str | None:
        """Why this address of `host` is refused, or None. Call it for every address a name resolves to."""
        if reason := self.refuse_denied(address):
            return reason
        if unwrap(address):
            return None
        kind = classify(address)
        if kind is None or self._allows(host, address):
            return None
        return f"it is {kind}; add it to egress.allow if this is intended"

    def refuse_denied(self, address: Address) -> str | None:
        """Why this address is refused to a service's own key too, which may name private ones; or None."""
        inner = (*unwrap(address), *tunnelled(address))
        if reason := refuse_always(address):
            return reason
        if any(one in network for one in (address, *inner) for network in self._denied_networks):
            return "egress.deny covers it"
        # Independent of the settings: translated forms of non-public addresses have no legitimate use.
        kinds = [kind for one in inner if (kind := classify(one))]
        return f"it is a translated form of a {kinds[0]} address" if kinds else None

    def refuse_port(self, address: Address, port: int) -> str | None:
        """Why this port of an address is refused, or None; no setting allows it."""
        if port in self._sidecar_ports and classify(address) in ("loopback", "unspecified"):
            return "it is the node's own Dapr sidecar, which jobs may not call"
        return None

    def _may_be_loopback(self, host: str) -> bool:
        if _matches(self._allowed_hosts, host):
            return True
        return any(
            network.version == own.version and network.overlaps(own)
            for network in self._allowed_networks
            for own in _LOOPBACK
        )

    def _allows(self, host: str, address: Address) -> bool:
        return any(address in network for network in self._allowed_networks) or _matches(
            self._allowed_hosts, host
        )


def refuse_always(address: Address) -> str | None:
    """Why this address is refused whatever the settings say, also where they name it; or None."""
    for one in (address, *unwrap(address), *tunnelled(address)):
        for network, kind in _NEVER:
            if one in network:
                return f"it is {kind}, which is always refused"
    if address in _LOCAL_NAT64:
        return "it is a locally translated address, whose target cannot be determined"
    return None


def classify(address: Address) -> str | None:
    """The kind of an address that is not public (`loopback`, `private`, `shared`, …), else None."""
    for network, kind in (*_NEVER, *_SPECIAL):
        if address in network:
            return kind
    if address.version == 6 and address not in _GLOBAL_V6:
        return "reserved"
    return None


def unwrap(address: Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses of which an IPv6 one is another form.

    Mapped, translated (SIIT, `::ffff:0:0:0/96`), compatible, NAT64 with its well-known prefix, 6to4, and
    Teredo, which has two: its server's and its client's.
    """
    if not isinstance(address, IPv6Address):
        return ()
    number = int(address)
    high = number >> 32
    if high in (0xFFFF, 0xFFFF0000, 0x64FF9B << 64) or (high == 0 and number > 1):
        return (IPv4Address(number & 0xFFFFFFFF),)
    if number >> 112 == 0x2002:
        return (IPv4Address(number >> 80 & 0xFFFFFFFF),)
    if number >> 96 == 0x20010000:
        return (IPv4Address(number >> 64 & 0xFFFFFFFF), IPv4Address(~number & 0xFFFFFFFF))
    return ()


def tunnelled(address: Address) -> tuple[IPv4Address, ...]:
    """The IPv4 address to which a packet for an ISATAP address is sent (RFC 5214), whatever its prefix is."""
    if not isinstance(address, IPv6Address):
        return ()
    number = int(address)
    is_isatap = number >> 32 & 0xFDFFFFFF == 0x5EFE
    return (IPv4Address(number & 0xFFFFFFFF),) if is_isatap else ()


def is_loopback_name(host: str) -> bool:
    """True for the names that refer to the machine itself (RFC 6761 and the usual hosts file)."""
    return host in _LOOPBACK_NAMES or host.endswith(".localhost")


def _read_entries(setting: str, entries: Iterable[str]) -> tuple[tuple[Network, ...], tuple[str, ...]]:
    networks: list[Network] = []
    hosts: list[str] = []
    for entry in entries:
        text = entry.strip().lower().removesuffix(".")
        if (network := _read_network(setting, text)) is not None:
            networks.append(network)
        elif _PATTERN.fullmatch(text):
            hosts.append(text)
        else:
            raise PolicyError(
                f"{setting}: {entry!r} is not a CIDR block, an address, HOST or *.HOST: correct it."
            )
    return tuple(networks), tuple(hosts)


def _read_network(setting: str, text: str) -> Network | None:
    bare = text.removeprefix("[").removesuffix("]")
    try:
        ip_network(bare)
        return read_network(bare)
    except ValueError as error:
        if "/" in text or text.replace(".", "").isdigit():
            raise PolicyError(f"{setting}: {text!r} is not a CIDR block: {error}.") from None
        return None


def _matches(patterns: tuple[str, ...], host: str) -> bool:
    return any(
        host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern for pattern in patterns
    )


def judge_literal(policy: EgressPolicy, url: str) -> str | None:
    """Why `policy` lets no request to the host of `url` through, or None. A name is not looked up."""
    try:
        site = read_url(url).site
    except RefusedTarget as error:
        sentence = str(error)
        return sentence[:1].lower() + sentence[1:].removesuffix(".")
    reason = policy.refuse_name(site.host)
    if reason is None and site.address is not None:
        reason = policy.refuse_address(site.host, site.address) or policy.refuse_port(site.address, site.port)
    return reason


def judge_always(url: str) -> str | None:
    """Why no request to the literal address of `url` is let through whatever the settings say, or None."""
    address = read_url(url).site.address
    return None if address is None else refuse_always(address)


def judge_vouched(policy: EgressPolicy, url: str) -> str | None:
    """Why `policy` lets no request to `url` through, for which a service's key vouches, or None.

    A name is looked up when it is connected to.
    """
    site = read_url(url).site
    reason = policy.refuse_denied_name(site.host)
    if reason or site.address is None:
        return reason
    return policy.refuse_denied(site.address) or policy.refuse_port(site.address, site.port)


class Resolver(Protocol):
    """Looks up host names."""

    async def resolve(self, host: str) -> Sequence[Address]:
        """All addresses of `host`, in the order in which to try them.

        Raises OSError when there are none, UnicodeError for what can be no name.
        """


class Trust(enum.IntEnum):
    """Who says that a site may be connected to, and so what of the egress policy holds (SPEC section 9)."""

    NONE = 0
    """A job: all of it."""
    VOUCHED = 1
    """A service's key: it may be private, not what `egress.deny` covers, nor the node's own sidecar."""
    OWN = 2
    """The settings, or it is the sidecar: it may be all but what is always refused."""


class Route(msgspec.Struct, frozen=True):
    """A site, and who says that it may be connected to."""

    site: Site
    trust: Trust


class Guard:
    """Returns the addresses that may be connected to, or raises; connections go to these addresses only."""

    def __init__(self, *, policy: EgressPolicy, resolver: Resolver) -> None:
        self._policy = policy
        self._resolver = resolver

    async def admit(self, route: Route) -> Sequence[Address]:
        """The admitted addresses of a site, never empty: when one is refused, all are (SPEC section 9).

        Raises RefusedTarget, Unreached for a name without an address, and Exhausted.
        """
        site = route.site
        if reason := self._refuse_name(route):
            raise RefusedTarget(f"{site.origin} is refused: {reason}.")
        addresses = (site.address,) if site.address is not None else await self._resolve(site)
        for address in addresses:
            if reason := self._refuse(route, address):
                raise RefusedTarget(f"{site.origin} is refused: {_name(site, address)}{reason}.")
        return addresses

    def _refuse_name(self, route: Route) -> str | None:
        if route.trust is Trust.OWN:
            return None
        if route.trust is Trust.VOUCHED:
            return self._policy.refuse_denied_name(route.site.host)
        return self._policy.refuse_name(route.site.host)

    def _refuse(self, route: Route, address: Address) -> str | None:
        policy, site = self._policy, route.site
        if route.trust is Trust.OWN:
            return refuse_always(address)
        if route.trust is Trust.VOUCHED:
            reason = policy.refuse_denied(address)
        else:
            reason = policy.refuse_address(site.host, address)
        return reason or policy.refuse_port(address, site.port)

    async def _resolve(self, site: Site) -> Sequence[Address]:
        try:
            addresses = await self._resolver.resolve(site.host)
        except (OSError, UnicodeError) as error:
            if isinstance(error, OSError) and is_exhausted(error):
                raise MachineExhausted(
                    f"{site.host} cannot be looked up: {error}. Raise LimitNOFILE."
                ) from error
            raise Unreached(f"{site.host} has no address: {error}. Check the name.") from error
        if not addresses:
            raise Unreached(f"{site.host} has no address. Check the name.")
        return addresses


def _name(site: Site, address: Address) -> str:
    return "" if site.address is not None else f"it resolves to {address}: "
