"""A small scheduler in memory: the routes of services and queues as SPEC sections 11 and 13 have them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from client_sdk import Client
from client_sdk.client import Patience
from client_sdk.models import (
    Heartbeat,
    InstanceRegistration,
    ModelError,
    ServiceDeclaration,
    parse_definition,
    parse_model,
)
from client_sdk.target import Service


class Registry:
    """What it was told, in order; `instances` and `services` are what it knows now."""

    def __init__(self) -> None:
        self.services: dict[str, ServiceDeclaration] = {}
        self.instances: dict[str, InstanceRegistration] = {}
        self.heartbeats: list[tuple[str, Heartbeat]] = []
        self.told: list[str] = []
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[int] = []
        self.is_down = False
        self.warnings: list[dict[str, str]] = []
        self.refusals: list[dict[str, str]] = []
        self.heartbeat_seconds = 3.0
        self._changed = asyncio.Condition()
        instance = "/services/{name}/instances/{id}"
        self.app = Starlette(
            routes=[
                Route("/services/{name}", self._put_service, methods=["PUT"]),
                Route(instance, self._put_instance, methods=["PUT"]),
                Route(instance, self._delete_instance, methods=["DELETE"]),
                Route(f"{instance}/heartbeat", self._beat, methods=["POST"]),
                Route("/jobs/{id}/feedback/{counts}", self._feedback, methods=["POST"]),
            ]
        )

    @property
    def transport(self) -> httpx.AsyncBaseTransport:
        """The way to it."""
        return httpx.ASGITransport(self._serve)

    async def until(self, condition: Callable[[], Any]) -> None:
        """Returns when something it was told makes `condition` true."""
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(condition)

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        if self.is_down:
            await self._take("missed")
            raise httpx.ConnectError("refused")
        await self.app(scope, receive, send)

    async def _put_service(self, request: Request) -> JSONResponse:
        try:
            said = parse_model(ServiceDeclaration, await request.json())
        except ModelError as error:
            return refuse(422, str(error))
        self.services[request.path_params["name"]] = said
        await self._take("service")
        return answer({"name": request.path_params["name"]})

    async def _put_instance(self, request: Request) -> JSONResponse:
        if self.refusals:
            await self._take("refused")
            return refuse(422, "not so", self.refusals)
        try:
            said = parse_model(InstanceRegistration, await request.json())
            for definition in said.timers or []:
                parse_definition(definition)
        except ModelError as error:
            return refuse(422, str(error))
        self.instances[request.path_params["id"]] = said
        await self._take("instance")
        data = {"instanceId": request.path_params["id"], "heartbeatSeconds": self.heartbeat_seconds}
        return answer(data, self.warnings)

    async def _delete_instance(self, request: Request) -> JSONResponse:
        if self.instances.pop(request.path_params["id"], None) is None:
            return refuse(404, "there is no such instance")
        return await self._take("deregistered")

    async def _beat(self, request: Request) -> JSONResponse:
        said = parse_model(Heartbeat, await request.json())
        if request.path_params["id"] not in self.instances:
            return refuse(404, "there is no such instance")
        self.heartbeats.append((request.path_params["id"], said))
        return await self._take("draining" if said.draining else "heartbeat")

    async def _feedback(self, request: Request) -> JSONResponse:
        said = json.loads(await request.body())
        status = self.answers.pop(0) if self.answers else 200
        self.reports.append((str(request.url.path), {**said, "token": request.query_params.get("token")}))
        return await self._take("feedback") if status == 200 else refuse(status, "stale")

    async def _take(self, what: str) -> JSONResponse:
        async with self._changed:
            self.told.append(what)
            self._changed.notify_all()
        return answer({})


def answer(data: Any, warnings: Sequence[dict[str, str]] = ()) -> JSONResponse:
    """A success."""
    return JSONResponse({"resp_code": 200, "resp_msg": None, "data": data, "warnings": list(warnings)})


def refuse(status: int, detail: str, errors: Sequence[dict[str, str]] = ()) -> JSONResponse:
    """A problem document."""
    body = {"title": "no", "status": status, "detail": detail, "errors": list(errors), "resp_code": status}
    return JSONResponse(body, status)


@asynccontextmanager
async def registered(**options: Any) -> AsyncIterator[tuple[Service, Registry]]:
    """A service that is not started yet, and the registry that it will speak to."""
    registry = Registry()
    patience = Patience(retries=0)
    async with Client("http://scheduler.test", transport=registry.transport, patience=patience) as client:
        given: dict[str, Any] = {"address": "http://10.0.0.7:9000", "signals": (), "instance_id": "one"}
        given |= {"heartbeat_seconds": 0.001, "registration_seconds": 0.003}
        service = Service("reports", client=client, **(given | options))
        try:
            yield service, registry
        finally:
            await service.stop()
