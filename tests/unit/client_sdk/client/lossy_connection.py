"""A connection that loses requests and answers."""

from typing import Any

import httpx

from client_sdk.client.connection import Connection
from client_sdk.client.jobs import Jobs
from client_sdk.client.retrying import Patience
from tests.unit.client_sdk.lines import LossyLine, Waits
from tests.wire.service import SERVED, World


class Line:
    """A connection to a real service over a line that loses what `fates` say."""

    def __init__(
        self, world: World | None, *fates: str | httpx.Response | Exception, **patience: Any
    ) -> None:
        async def nobody(scope: Any, receive: Any, send: Any) -> None:
            raise AssertionError("nothing else is asked")

        inner = httpx.ASGITransport(world.service.api if world else nobody)
        self.line = LossyLine(inner, fates)
        self.waits = Waits()
        self.connection = Connection(
            url=SERVED,
            key=None,
            timeout=5,
            patience=Patience(**patience),
            transport=self.line,
            pause=self.waits,
            chance=lambda: 0.0,
        )
        self.jobs = Jobs(self.connection)

    @property
    def keys(self) -> list[str | None]:
        """The Idempotency-Key of each call."""
        return [request.headers.get("idempotency-key") for request in self.line.sent]
