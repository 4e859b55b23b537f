"""Waits until daprd can be used, and watches it: what is missing is logged, what is wrong is refused."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import httpx

from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.background_tasks import keep_at
from scheduler_service.hosts.dapr.heartbeat import ActiveActors
from scheduler_service.hosts.dapr.sidecar import ACTOR_TYPE
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.log import Log
from scheduler_service.transport.sidecar_exchanges import REFUSED_REMEDY, show_token

OLDEST_VERSION = (1, 18, 3)
START_TIMEOUT_MS = 60 * SECOND
POLL_MS = SECOND
POLLS_PER_LOG_LINE = 5
OnChange = Callable[[Sequence[str]], Awaitable[None]]


class SidecarWatch:
    """Reads daprd's own metadata. `missing` names what is not there at the moment.

    `token` is that of daprd's API; None: it needs none.
    """

    def __init__(self, *, http_port: int, clock: Timekeeper, log: Log, token: str | None = None) -> None:
        self._address = f"http://127.0.0.1:{http_port}"
        self._clock = clock
        self._log = log
        self._client = httpx.AsyncClient(
            base_url=self._address, timeout=2, trust_env=False, headers=show_token(token)
        )
        self._is_refused = False
        self._task: asyncio.Task[None] | None = None
        self.missing: Sequence[str] = ("sidecar",)
        self.metadata: dict[str, Any] = {}

    @property
    def app_id(self) -> str:
        """The name under which the sidecar keeps the actors' state."""
        return str(self.metadata.get("id", ""))

    async def wait(self, timeout: int = START_TIMEOUT_MS) -> None:
        """Returns when actors can be used. After `timeout` ms raises StoreUnavailable naming the obstacle."""
        for polls in range(timeout // POLL_MS):
            await self.poll()
            self.check()
            if not self.missing:
                return
            if polls % POLLS_PER_LOG_LINE == 0:
                self._log("sidecar_awaited", address=self._address, missing=list(self.missing))
            await self._clock.sleep(POLL_MS)
        raise StoreUnavailable(
            f"not there after {timeout // SECOND} s: {', '.join(self.missing)} (daprd at {self._address}); "
            "start daprd with --app-id, --app-port, --dapr-http-port and --dapr-grpc-port as settings say, "
            "and placement and the scheduler service before it"
        )

    def start(self, on_change: OnChange, active: ActiveActors) -> None:
        """Goes on polling, so that readiness names what is missing; calls `on_change` with it.

        `active` is compared with what daprd has, each time.
        """
        watching = partial(self._run, on_change, active)
        self._task = keep_at(watching, name="sidecar_watch", clock=self._clock, log=self._log)

    async def stop(self) -> None:
        """Ends the polling."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.aclose()

    async def poll(self) -> None:
        """Reads the metadata once."""
        try:
            answer = await self._client.get("/v1.0/metadata")
            self._is_refused = answer.status_code == httpx.codes.UNAUTHORIZED
            self.metadata = answer.json() if answer.status_code == httpx.codes.OK else {}
        except (httpx.HTTPError, ValueError):
            self.metadata = {}
        self.missing = find_missing(self.metadata)

    async def _run(self, on_change: OnChange, active: ActiveActors) -> None:
        while True:
            await self._clock.sleep(POLL_MS)
            before, known = self.missing, len(active)
            await self.poll()
            if self.metadata:
                active.compare(count_active(self.metadata), known)
            if self.missing != before:
                self._log("sidecar_changed", missing=list(self.missing))
                await on_change(self.missing)

    def check(self) -> None:
        """Raises StoreUnavailable for an obstacle that waiting does not remove."""
        if self._is_refused:
            raise StoreUnavailable(f"daprd at {self._address} refuses this node (401): {REFUSED_REMEDY}")
        if not self.metadata:
            return
        version = str(self.metadata.get("runtimeVersion", ""))
        if is_too_old(version):
            raise StoreUnavailable(
                f"daprd at {self._address} has version {version}; 1.18.3 is the oldest that works"
            )
        if self.metadata.get("components") is not None and not has_actor_store(self.metadata):
            raise StoreUnavailable(
                f"daprd at {self._address} has no state store for actors: its --resources-path needs a state "
                'component with actorStateStore "true", as components/statestore.yaml'
            )


def find_missing(metadata: dict[str, Any]) -> list[str]:
    """The names of the parts that are not there; none: actors can be used."""
    if not metadata:
        return ["sidecar"]
    actors = metadata.get("actorRuntime") or {}
    missing = []
    if not str(actors.get("placement", "")).endswith(": connected"):
        missing.append("placement")
    hosted = {one.get("type") for one in _hosted(metadata)}
    if not actors.get("hostReady") or (hosted and ACTOR_TYPE not in hosted):
        missing.append("actors")
    scheduler = metadata.get("scheduler")
    if scheduler is not None and not scheduler.get("connected_addresses"):
        missing.append("scheduler service")
    return missing


def count_active(metadata: dict[str, Any]) -> int:
    """How many jobs' actors daprd has active here."""
    return sum(int(one.get("count") or 0) for one in _hosted(metadata) if one.get("type") == ACTOR_TYPE)


def _hosted(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    actors = metadata.get("actorRuntime") or {}
    return actors.get("activeActors") or metadata.get("actors") or []


def is_too_old(version: str) -> bool:
    """Whether a daprd of this version is refused; a version that is not a number ("edge") is accepted."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return found is not None and tuple(map(int, found.groups())) < OLDEST_VERSION


def has_actor_store(metadata: dict[str, Any]) -> bool:
    """Whether daprd has a state store that may hold actors."""
    return any(
        "ACTOR" in (one.get("capabilities") or [])
        for one in metadata.get("components") or []
        if str(one.get("type", "")).startswith("state.")
    )
