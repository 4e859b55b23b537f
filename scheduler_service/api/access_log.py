"""A line of the log for each request, where `log.access` asks for it."""

import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scheduler_service.ports.log import Log

ROLE = "punctual.role"
"""Where the scope of a request has the role of its caller, once the caller is known."""

LONGEST_METHOD = 20
MILLISECONDS = 1_000


class AccessLog:
    """An application in front of another one (ASGI).

    A line has the method, the route as the description of the API has it, the status (None: the caller has
    gone, or the application failed before it answered), the duration in ms, the bytes of the answer's body,
    and the caller's role (None: no key was needed, or it was refused). It has no path and no query: ids and
    tokens stand there.
    """

    def __init__(self, *, app: ASGIApp, log: Log, clock: Callable[[], float] = time.perf_counter) -> None:
        self._app = app
        self._log = log
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Has the request answered, then writes its line."""
        began = self._clock()
        status: int | None = None
        size = 0

        async def count(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, count)
        finally:
            self._log(
                "request_answered",
                method=scope["method"][:LONGEST_METHOD],
                route=getattr(scope.get("endpoint"), "path", None),
                status=status,
                ms=round((self._clock() - began) * MILLISECONDS, 1),
                bytes=size,
                role=scope.get(ROLE),
            )
