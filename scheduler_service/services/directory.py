"""The addresses of services: those of the settings, of their instances, or their own."""

from collections.abc import Callable, Mapping

from scheduler_service.domain.moments import DAY
from scheduler_service.ports.clock import Clock
from scheduler_service.services.registry import Registry
from scheduler_service.services.router import Terms


class RegistryDirectory:
    """The base address for a call to a service of one tenant. Raises nothing.

    A name in `services.static` always has the operator's address: a registration cannot divert its calls.
    When no instance takes work, the address that the service declared is used (a gateway, a load balancer).
    `terms` as in `MemoryRouter`.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        static: Mapping[str, str],
        clock: Clock,
        tenant: str,
        terms: Callable[[str, str], Terms],
    ) -> None:
        self._registry = registry
        self._static = dict(static)
        self._clock = clock
        self._tenant = tenant
        self._terms = terms

    def address(self, name: str) -> str | None:
        """The `http(s)://host[:port][/base]` of service `name`, or None if there is none."""
        static = self._static.get(name)
        if static is not None:
            return static
        now = self._clock.now().steady
        for instance in self._registry.instances.online(self._tenant, name, now):
            if instance.address and not instance.draining and not instance.refuses:
                return instance.address
        service = self._registry.find(self._tenant, name)
        return None if service is None else service.address

    def wait(self, name: str) -> int:
        """How long (ms) a call waits in all for an instance of `name` that takes work; it may fall."""
        terms = self._terms(self._tenant, name)
        return DAY if terms.awaits_instances else terms.wait
