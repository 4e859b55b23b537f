"""Proxies that are believed: from which address a request comes, and as whom they have signed it in."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.keys_and_roles import Role
from scheduler_service.security.callers import Caller

LONGEST_USER = 128
MOST_HOPS = 20
"""Of a longer chain of addresses the nearest are looked at."""


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
        self._networks = tuple(ip_network(one, strict=False) for one in addresses)
        self.user_header = None if user_header is None else user_header.lower().encode()
        self._role = role
        self._tenant = tenant

    @property
    def is_used(self) -> bool:
        """Whether there are any."""
        return bool(self._networks)

    def trusts(self, address: str) -> bool:
        """Whether the peer with this address is one of them."""
        return _is_in(address, self._networks)

    def origin_of(self, peer: str, forwarded: Sequence[str]) -> str:
        """The address from which a request comes that `peer` passes on, by its headers `X-Forwarded-For`.

        The nearest address that is no such proxy: what stands before it anybody may have written.
        """
        if not forwarded or not self.trusts(peer):
            return peer
        chain = [part.strip() for value in forwarded for part in value.split(",")]
        for address in reversed(chain[-MOST_HOPS:]):
            if not _is_address(address):
                return peer
            peer = address
            if not self.trusts(address):
                break
        return peer

    def user(self, name: str) -> Caller | None:
        """The caller whom a proxy calls `name`; None: that is no name."""
        name = name.strip()
        is_name = 0 < len(name) <= LONGEST_USER and name.isprintable()
        return Caller(self._tenant, self._role, name=name) if is_name else None


def _is_in(address: str, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    try:
        known = ip_address(address)
    except ValueError:
        return False
    known = getattr(known, "ipv4_mapped", None) or known
    return any(known.version == network.version and known in network for network in networks)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
