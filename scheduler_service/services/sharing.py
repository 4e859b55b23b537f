"""What a registry does with its changes beside its own memory: nothing, where one process knows all."""

from typing import Protocol

from scheduler_service.services.instances import Instance


class Sharing(Protocol):
    """Tells the other nodes of a cluster.

    `catch_up`, `write`, `leave` and `forget` raise StoreUnavailable: then nothing has changed. `write` and
    `leave` may raise StoreUncertain, too: what came of it is known with the next `catch_up`, and they may be
    repeated.
    """

    @property
    def complete_at(self) -> int:
        """The steady moment by which every living instance is known here; it may move on."""

    async def catch_up(self) -> None:
        """Returns when what the others had written by now is known here."""

    async def write(self, instance: Instance) -> None:
        """It has registered."""

    async def leave(self, instance: Instance, left_at: int) -> None:
        """It has deregistered (steady ms)."""

    async def forget(self, before: int) -> None:
        """What nobody has heard of since `before` (steady ms) is old."""

    def note(self, tenant: str, name: str, *, anew: bool) -> None:
        """The table has something new of a service, or whether its jobs are declared anew has changed."""

    async def flush(self) -> None:
        """Tells at once what was noted; where that fails, it is told a moment later."""


class Alone:
    """Sharing with nobody: every instance registers with this process."""

    complete_at = 0

    async def catch_up(self) -> None:
        """All is known."""

    async def write(self, instance: Instance) -> None:
        """Nobody else wants to know."""

    async def leave(self, instance: Instance, left_at: int) -> None:
        """Nobody else wants to know."""

    async def forget(self, before: int) -> None:
        """Nobody else has them."""

    def note(self, tenant: str, name: str, *, anew: bool) -> None:
        """Nobody else wants to know."""

    async def flush(self) -> None:
        """Nobody else wants to know."""
