"""Resolves host names to addresses and checks each of them against the egress policy."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from scheduler_service.transport.addresses import Address, Site
from scheduler_service.transport.errors import Exhausted, RefusedTarget, Unreached, is_exhausted
from scheduler_service.transport.guard import EgressPolicy, refuse_always


class Resolver(Protocol):
    """Looks up host names."""

    async def resolve(self, host: str) -> Sequence[Address]:
        """All addresses of `host`, in the order in which to try them.

        Raises OSError when there are none, UnicodeError for what can be no name.
        """


class Route(msgspec.Struct, frozen=True):
    """A site; `trusted`: it comes from the settings or the registry of services."""

    site: Site
    trusted: bool


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
        if not route.trusted and (reason := self._policy.refuse_name(site.host)):
            raise RefusedTarget(f"{site.origin} is refused: {reason}.")
        addresses = (site.address,) if site.address is not None else await self._resolve(site)
        for address in addresses:
            if reason := self._refuse(route, address):
                raise RefusedTarget(f"{site.origin} is refused: {_name(site, address)} {reason}.")
        return addresses

    def _refuse(self, route: Route, address: Address) -> str | None:
        if route.trusted:
            return refuse_always(address)
        site = route.site
        return self._policy.refuse_address(site.host, address) or self._policy.refuse_port(address, site.port)

    async def _resolve(self, site: Site) -> Sequence[Address]:
        try:
            addresses = await self._resolver.resolve(site.host)
        except (OSError, UnicodeError) as error:
            if isinstance(error, OSError) and is_exhausted(error):
                raise Exhausted(f"{site.host} cannot be looked up: {error}. Raise LimitNOFILE.") from error
            raise Unreached(f"{site.host} has no address: {error}. Check the name.") from error
        if not addresses:
            raise Unreached(f"{site.host} has no address. Check the name.")
        return addresses


def _name(site: Site, address: Address) -> str:
    return "its address:" if site.address is not None else f"it resolves to {address}:"
