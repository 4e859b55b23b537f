"""Replaces `service://` and `serviceName` by the addresses of services (SPEC section 9)."""

from collections.abc import Mapping
from typing import Any

from client_sdk.errors import Flaw

SCHEME, WITH_NAME = "service:", "service://"
LISTS, SINGLES = ("request", "notification"), ("checkUrl", "cancelUrl")


class ServiceAddresses:
    """Addresses by service name; `missing` collects references to services without an address."""

    def __init__(self, services: Mapping[str, str]) -> None:
        self._services = services
        self.missing: list[Flaw] = []

    def put(self, posted: Mapping[str, Any]) -> dict[str, Any]:
        """The definition with addresses; malformed parts are left unchanged for validation."""
        placed = dict(posted)
        for name in LISTS:
            if isinstance(placed.get(name), list):
                placed[name] = [
                    self._place(one, f"/{name}/{index}") for index, one in enumerate(placed[name])
                ]
        for name in SINGLES:
            if placed.get(name) is not None:
                placed[name] = self._place(placed[name], f"/{name}")
        return placed

    def _place(self, target: Any, pointer: str) -> Any:
        if isinstance(target, str):
            return self._find(target, pointer)
        if not isinstance(target, Mapping) or not isinstance(target.get("url"), str):
            return target
        placed = dict(target)
        name = placed.pop("serviceName", None)
        url = target["url"]
        if isinstance(name, str):
            # The authority becomes the first segment of the path (SPEC section 4).
            url = f"{WITH_NAME}{name}/{url.partition(':')[2].lstrip('/')}"
        return {**placed, "url": self._find(url, f"{pointer}/url")}

    def _find(self, url: str, pointer: str) -> str:
        if not url.lower().startswith(SCHEME):
            return url
        name, _, rest = url[len(WITH_NAME) :].partition("/") if url.startswith(WITH_NAME) else ("", "", "")
        address = self._services.get(name)
        if address is None:
            self.missing.append(Flaw(pointer, "no_instance", self._explain(name)))
            return url
        return f"{address.rstrip('/')}/{rest}"

    def _explain(self, name: str) -> str:
        if not name:
            return "service:/path is the job's own service, and there is none here; write its address"
        known = f"it has {', '.join(map(repr, self._services))}" if self._services else "it has none"
        return f"no address of the service {name!r} was given in services, {known}: add {name!r}: 'http://…'"
