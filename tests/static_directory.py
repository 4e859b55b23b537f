"""A directory of services for tests: a table of addresses."""

from collections.abc import Mapping


class StaticDirectory:
    """The table of `services.static`: service name → base address."""

    def __init__(self, *, addresses: Mapping[str, str], signing: Mapping[str, str] | None = None) -> None:
        self._addresses = dict(addresses)
        self._signing = dict(signing or {})

    def address(self, name: str) -> str | None:
        """The base address of service `name`, or None."""
        return self._addresses.get(name)

    def wait(self, name: str) -> int:
        """None: what is in the table is there."""
        return 0

    def signing(self, name: str) -> str:
        """The secret that signs calls of service `name`; empty: none."""
        return self._signing.get(name, "")

    def vouched(self, name: str) -> bool | None:
        """None: nothing is noted."""
        return None
