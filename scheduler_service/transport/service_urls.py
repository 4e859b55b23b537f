"""What `service:` URLs mean: names to base addresses, from a table that the constructor is given."""

import re
from collections.abc import Mapping
from typing import Protocol

from scheduler_service.language.authority import is_service_name
from scheduler_service.transport.addresses import Target, read_url, write_path
from scheduler_service.transport.errors import NoInstance, NotBack, RefusedTarget

_SERVICE = re.compile(r"(?i:service):(?://([^/?#]*))?(/[^#]*)?(?:#.*)?", re.DOTALL)
_DOTS = re.compile(r"(?i)(?:^|/)(?:\.|%2e){1,2}(?:/|$)")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")


class Directory(Protocol):
    """Knows the base address of each service."""

    def address(self, name: str) -> str | None:
        """The `http(s)://host[:port][/base]` of service `name`, or None. Raises nothing."""

    def awaits_instances(self, name: str) -> bool:
        """Whether instances of `name` may live that have not registered since the start. Raises nothing."""


class StaticDirectory:
    """The table of `services.static`: service name → base address."""

    def __init__(self, *, addresses: Mapping[str, str]) -> None:
        self._addresses = dict(addresses)

    def address(self, name: str) -> str | None:
        """The base address of service `name`, or None."""
        return self._addresses.get(name)

    def awaits_instances(self, name: str) -> bool:
        """Never: what is in the table is there."""
        return False


class ServiceUrls:
    """Turns the `service:` forms of SPEC section 9 into targets.

    `owner_url` is what `service:/path` and `service://{serviceName}/path` reach (this scheduler: a job of
    another owner arrives with that service's name), `gateway` what `{serviceGateway}` stands for.
    """

    def __init__(self, *, directory: Directory, owner_url: str | None, gateway: str | None) -> None:
        self._directory = directory
        self._owner_url = owner_url
        self._gateway = gateway

    def locate(self, url: str, base: str = "") -> Target:
        """The target of a `service:` URL. Raises NoInstance for an unknown service, NotBack for one whose
        instances may come back in a moment, else RefusedTarget.

        `base` is the address of the instance that was chosen already; empty: the directory is asked.
        """
        match = None if _FORBIDDEN.search(url) else _SERVICE.fullmatch(url)
        if match is None:
            raise RefusedTarget(
                "A service URL is service://NAME/PATH or service:/PATH, percent-encoded: correct it."
            )
        name, path = match.group(1), match.group(2) or "/"
        if _DOTS.search(path.partition("?")[0]):
            raise RefusedTarget("A service URL may not have . or .. as a path segment: write the path out.")
        there = read_url(base or self._base(name))
        return Target(there.site, there.path.partition("?")[0].rstrip("/") + write_path(path))

    def _base(self, name: str | None) -> str:
        match name:
            case None | "{serviceName}":
                return _known(self._owner_url, "The job's owner", "server.external_url")
            case "{serviceGateway}":
                return _known(self._gateway, "The service gateway", "services.gateway")
        if not is_service_name(name):
            raise RefusedTarget(
                f"{name[:80]!r} is not a service name: a name is letters, digits, '_', '.' and '-'."
            )
        address = self._directory.address(name)
        if not address and self._directory.awaits_instances(name):
            raise NotBack(
                f"No instance of the service {name!r} has registered since the start: is one running?"
            )
        return _known(address, f"The service {name!r}", "services.static")


def _known(base: str | None, what: str, setting: str) -> str:
    if not base:
        raise NoInstance(f"{what} has no address: register an instance or set {setting}.")
    return base
