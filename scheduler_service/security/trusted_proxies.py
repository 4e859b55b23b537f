"""Proxies that are believed: from which address a request comes, and as whom they have signed it in."""

import re
from collections.abc import Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    collapse_addresses,
    ip_address,
    ip_network,
)

from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.keys_and_roles import Role
from scheduler_service.security.callers import Caller

LONGEST_USER = 128
MOST_HOPS = 20
"""Of a longer chain of addresses the nearest are looked at."""
WIDEST = {4: 8, 6: 16}
"""By version of the protocol: a network with a shorter prefix is more than a company has."""
_OWN = IPv6Network("fc00::/7")
"""Private networks of IPv6, as 10.0.0.0/8 of IPv4."""
MAPPED_BITS = 96
_WRITTEN = re.compile(r"\[([^\]]*)\](?::[0-9]{1,5})?|([0-9.]+):[0-9]{1,5}|[0-9A-Fa-f:.]+(?:%.*)?")
"""An address as proxies write it: in brackets, with a port, or alone."""


class Proxies:
    """Believes what requests from `addresses` say, which are addresses and networks (CIDR).

    `user_header` (lower case): the header in which these say who has signed in there; None: none. Such a
    user has `role` in `tenant`.
    """

    def __init__(
        self,
        addresses: Iterable[str] = (),
        *,
        user_header: str | None = None,
        role: Role = Role.VIEWER,
        tenant: str = DEFAULT_TENANT,
    ) -> None:
        self._networks = tuple(read_network(one) for one in addresses)
        self.user_header = None if user_header is None else user_header.lower().encode()
        self._role = role
        self._tenant = tenant

    @property
    def is_used(self) -> bool:
        """Whether there are any."""
        return bool(self._networks)

    def trusts(self, address: str) -> bool:
        """Whether the peer with this address is one of them."""
        known = read_address(address)
        return known is not None and any(
            known.version == network.version and known in network for network in self._networks
        )

    def origin_of(self, peer: str, forwarded: Sequence[str]) -> str:
        """The address from which a request comes that `peer` passes on, by its headers `X-Forwarded-For`.

        The nearest address that is no such proxy: what stands before it anybody may have written.
        """
        if not forwarded or not self.trusts(peer):
            return peer
        chain = [part.strip() for value in forwarded for part in value.split(",")]
        for said in reversed(chain[-MOST_HOPS:]):
            if (address := read_address(said)) is None:
                return peer
            peer = str(address)
            if not self.trusts(peer):
                break
        return peer

    def user(self, name: str) -> Caller | None:
        """The caller whom a proxy calls `name`; None: that is no name."""
        name = name.strip()
        is_name = 0 < len(name) <= LONGEST_USER and name.isprintable()
        return Caller(self._tenant, self._role, name=name) if is_name else None


def find_widest(addresses: Iterable[str]) -> str | None:
    """A network of these, or of several side by side, that is the world's rather than a company's."""
    networks = [read_network(one) for one in addresses]
    for version, bits in WIDEST.items():
        for one in collapse_addresses(network for network in networks if network.version == version):  # type: ignore[type-var]
            if one.prefixlen < bits and not (isinstance(one, IPv6Network) and one.subnet_of(_OWN)):
                return str(one)
    return None


def read_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address in a text, which may have a port, brackets or a zone; None: there is none.

    One that stands for an IPv4 address (`::ffff:192.0.2.1`) is that one.
    """
    found = _WRITTEN.fullmatch(text.strip())
    try:
        known = ip_address((found[1] or found[2] or found[0]).partition("%")[0] if found else "")
    except ValueError:
        return None
    return getattr(known, "ipv4_mapped", None) or known


def read_network(text: str) -> IPv4Network | IPv6Network:
    """An address or a network (CIDR); one of mapped addresses is that of IPv4. Raises ValueError."""
    network = ip_network(text, strict=False)
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is None or network.prefixlen < MAPPED_BITS:
        return network
    return IPv4Network((mapped, network.prefixlen - MAPPED_BITS))
