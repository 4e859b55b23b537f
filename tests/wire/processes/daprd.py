"""Sidecars of a cluster on loopback, for nodes that are real processes: what daprd does, and placement.

All nodes are there before any actor is placed, and none leaves: what happens then is the subject of
`tests/conformance/hosts` and `tests/sidecar`.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from zlib import crc32

import grpc
import httpx
from dapr.proto import api_service_v1
from google.protobuf.empty_pb2 import Empty

from scheduler_service.app.listener import listen
from scheduler_service.http_server.server import Server
from tests.ports import free_port

AGAIN_SECONDS = 5.0
Answer = tuple[int, bytes]


class Reminders(api_service_v1.DaprServicer):
    """The gRPC side of a sidecar."""

    def __init__(self, world: "Sidecars") -> None:
        self._world = world

    async def RegisterActorReminder(self, request: Any, context: Any) -> Empty:
        self._world.remind(request.actor_id, request.name, int(request.due_time.removesuffix("ms")) / 1_000)
        return Empty()

    async def UnregisterActorReminder(self, request: Any, context: Any) -> Empty:
        self._world.forget(request.actor_id)
        return Empty()


class Sidecars:
    """One for each node. State, reminders and the places of actors are those of all."""

    def __init__(self, nodes: tuple[str, ...]) -> None:
        self.apps = {name: free_port() for name in nodes}
        self.state: dict[str, bytes] = {}
        self.environ: dict[str, Mapping[str, str]] = {}
        self._active: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._client = httpx.AsyncClient(trust_env=False, timeout=30)
        self._are_up = False

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Sidecars"]:
        """Listens; `environ` then says to each node where."""
        servers = []
        try:
            for name, port in self.apps.items():
                listener, calls = listen("127.0.0.1", 0), grpc.aio.server()
                api_service_v1.add_DaprServicer_to_server(Reminders(self), calls)
                grpc_port = calls.add_insecure_port("127.0.0.1:0")
                await calls.start()
                server = Server(lambda *asked, of=name: self._serve(of, *asked), log=lambda *_, **__: None)
                servers.append((server, asyncio.create_task(server.serve([listener])), calls))
                self.environ[name] = {
                    "PUNCTUAL_NODE__ID": name,
                    "PUNCTUAL_DAPR__APP_PORT": str(port),
                    "PUNCTUAL_DAPR__HTTP_PORT": str(listener.getsockname()[1]),
                    "PUNCTUAL_DAPR__GRPC_PORT": str(grpc_port),
                }
            yield self
        finally:
            for alarm in self._alarms.values():
                alarm.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for server, task, calls in servers:
                await server.end(task, seconds=1)
                await calls.stop(None)
            await self._client.aclose()

    def remind(self, actor_id: str, name: str, seconds: float) -> None:
        """Registers or replaces a reminder."""
        self.forget(actor_id)
        loop = asyncio.get_running_loop()
        self._alarms[actor_id] = loop.call_later(seconds, self._fire_soon, actor_id, name)

    def forget(self, actor_id: str) -> None:
        """Removes a reminder."""
        if (alarm := self._alarms.pop(actor_id, None)) is not None:
            alarm.cancel()

    def _fire_soon(self, actor_id: str, name: str) -> None:
        task = asyncio.create_task(self._fire(actor_id, name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fire(self, actor_id: str, name: str) -> None:
        del self._alarms[actor_id]
        body = json.dumps({"dueTime": "", "period": ""}).encode()
        status, _ = await self._turn(actor_id, f"remind/{name}", body)
        if status >= 300 and actor_id not in self._alarms:
            self.remind(actor_id, name, AGAIN_SECONDS)

    async def _turn(self, actor_id: str, method: str, body: bytes) -> Answer:
        node = max(self.apps, key=lambda one: crc32(f"{one}/{actor_id}".encode()))
        async with self._locks.setdefault(actor_id, asyncio.Lock()):
            self._active[actor_id] = node
            path = f"/actors/job_scheduler/{actor_id}/method/{method}"
            try:
                found = await self._client.put(f"http://127.0.0.1:{self.apps[node]}{path}", content=body)
            except httpx.HTTPError as error:
                return 500, json.dumps({"message": repr(error)}).encode()
            return found.status_code, found.content

    async def _serve(self, node: str, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        status, content = await self._answer(node, scope["method"], scope["path"], body)
        length = (b"content-length", b"%d" % len(content))
        await send({"type": "http.response.start", "status": status, "headers": [length]})
        await send({"type": "http.response.body", "body": content})

    async def _answer(self, node: str, method: str, path: str, body: bytes) -> Answer:
        match path.split("/")[1:]:
            case ["v1.0", "metadata"]:
                return 200, json.dumps(await self._describe(node)).encode()
            case ["v1.0", "actors", _, actor_id, "method", name]:
                return await self._turn(actor_id, name, body)
            case ["v1.0", "actors", _, actor_id, "state"]:
                return self._save(node, actor_id, json.loads(body))
            case ["v1.0", "actors", _, actor_id, "state", key]:
                return 200, self.state.get(f"{actor_id}||{key}", b"")
            case _:
                return 404, b"{}"

    def _save(self, node: str, actor_id: str, operations: list[Any]) -> Answer:
        if self._active.get(actor_id) != node:
            return 400, json.dumps({"errorCode": "ERR_ACTOR_INSTANCE_MISSING"}).encode()
        for one in operations:
            name = f"{actor_id}||{one['request']['key']}"
            if one["operation"] == "delete":
                self.state.pop(name, None)
            else:
                self.state[name] = json.dumps(one["request"]["value"]).encode()
        return 204, b""

    async def _describe(self, node: str) -> dict[str, Any]:
        count = sum(owner == node for owner in self._active.values())
        return {
            "id": "scheduler",
            "runtimeVersion": "1.18.3",
            "actorRuntime": {
                "placement": "placement: connected",
                "hostReady": await self._all_are_up(),
                "activeActors": [{"type": "job_scheduler", "count": count}],
            },
            "scheduler": {"connected_addresses": ["here"]},
        }

    async def _all_are_up(self) -> bool:
        """Whether every node answers: none is given an actor before."""
        for port in () if self._are_up else self.apps.values():
            try:
                answer = await self._client.get(f"http://127.0.0.1:{port}/healthz")
            except httpx.HTTPError:
                return False
            if answer.status_code not in (200, 503):
                return False
        self._are_up = True
        return True
