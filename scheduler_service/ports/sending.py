"""Sends one HTTP request."""

from collections.abc import Callable, Mapping
from typing import Protocol

from scheduler_service.domain.wire import OutboundRequest, Outcome

MayGo = Callable[[], bool]
"""Whether a request may still leave."""


def always() -> bool:
    """It may."""
    return True


LARGE_BODY = 65_536
"""The bodies of answers up to so many bytes are not counted."""


class NotSent(Exception):
    """A request did not leave, for its `MayGo` said no."""


class Sender(Protocol):
    """Sends one HTTP request. Never decides, never retries."""

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The target's answer, or why there is none. Raises nothing but CancelledError and NotSent.

        `may_go` is asked last, when all is ready that had to be waited for: whoever is asked earlier may
        stand still between its answer and the first byte.
        """

    async def close(self) -> None:
        """Closes idle connections and fails what is in flight."""


class CallingSender(Sender, Protocol):
    """A sender that opens connections itself, or stands in front of one that does."""

    def open_calls(self) -> Mapping[str, Mapping[str, int]]:
        """`open`, `idle` and `opening` connections and `waiting` calls of the 20 busiest origins."""


class Secrets(Protocol):
    """The secrets of all tenants. Asked on the event loop, just before a request leaves: it never waits."""

    def find(self, tenant: str, name: str) -> tuple[str, ...]:
        """The values of the secret `name` of a tenant: one, or two while it is rotated, the first one first.

        Empty: there is none. Never raises.
        """
