"""A small pull queue in memory: claim, renew and complete as SPEC section 13 has them."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from client_sdk.models import Claim, Completion, Renewal, parse_model
from tests.unit.client_sdk.registry import Registry, answer, refuse


class Queue(Registry):
    """Parts wait in `waiting`; `held` are those under a lease; `completed` what they came to."""

    def __init__(self, *, lease_seconds: float = 60, renew_seconds: float | None = None) -> None:
        super().__init__()
        self.waiting: list[dict[str, Any]] = []
        self.held: dict[str, dict[str, Any]] = {}
        self.completed: list[tuple[str, Completion]] = []
        self.claims: list[Claim] = []
        self.renewals: list[Renewal] = []
        self.cancelled: set[str] = set()
        self.most_held = 0
        self.key: str | None = None
        self.is_generous = False
        """Whether a claim gets all that waits, however little it asks for."""
        self._times = {"leaseSeconds": lease_seconds, "renewSeconds": renew_seconds}
        self._number = 0
        self.app.router.routes.extend(
            [
                Route("/queues/{name}/claim", self._claim, methods=["POST"]),
                Route("/leases/{lease}/renew", self._renew, methods=["POST"]),
                Route("/leases/{lease}/complete", self._complete, methods=["POST"]),
            ]
        )

    async def publish(self, job_id: str, body: Any = None, **further: Any) -> None:
        """One more part waits."""
        self._number += 1
        headers = {
            "X-Scheduling-Job-Id": job_id,
            "X-Scheduling-Execute-Number": str(self._number),
            "Idempotency-Key": f"life-{self._number}-0",
        }
        request = {"method": "POST", "url": "queue://work", "headers": headers, "body": body}
        part = {"executionId": f"life-{self._number}", "requestCounts": self._number, "request": request}
        async with self._changed:
            self.waiting.append(part | further)
            self._changed.notify_all()

    def lose(self) -> None:
        """Every lease has ended: others may have the work."""
        self.held.clear()

    async def _claim(self, request: Request) -> JSONResponse:
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return refuse(401, "the key is not known")
        asked = parse_model(Claim, await request.json())
        async with self._changed:
            self.claims.append(asked)
            self._changed.notify_all()
        try:
            async with asyncio.timeout(asked.wait_seconds), self._changed:
                await self._changed.wait_for(lambda: self.waiting)
        except TimeoutError:
            pass
        most = len(self.waiting) if self.is_generous else asked.max
        given, self.waiting = self.waiting[:most], self.waiting[most:]
        return answer({"items": [self._hand_out(part) for part in given]})

    def _hand_out(self, part: dict[str, Any]) -> dict[str, Any]:
        lease = f"lease-{part['requestCounts']}"
        self.held[lease] = part
        self.most_held = max(self.most_held, len(self.held))
        return {"lease": lease, "cancelled": False, **self._terms(), **part}

    async def _renew(self, request: Request) -> JSONResponse:
        lease = request.path_params["lease"]
        said = parse_model(Renewal, await request.json())
        if lease not in self.held:
            return refuse(409, "lease_lost")
        self.renewals.append(said)
        await self._take("renewed")
        return answer({"cancelled": lease in self.cancelled, **self._terms()})

    async def _complete(self, request: Request) -> JSONResponse:
        lease = request.path_params["lease"]
        said = parse_model(Completion, await request.json())
        if self.held.pop(lease, None) is None:
            await self._take("refused")
            return refuse(409, "lease_lost")
        self.completed.append((lease, said))
        await self._take("completed")
        return answer({})

    def _terms(self) -> dict[str, Any]:
        length = self._times["leaseSeconds"] or 0
        until = datetime.now(UTC) + timedelta(seconds=length)
        return {"leaseUntil": until.isoformat(), **self._times}

    async def until_completed(self, many: int) -> None:
        """Returns when so many parts are completed."""
        await self.until(lambda: len(self.completed) >= many)
