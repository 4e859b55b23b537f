"""`client.services`: registers services and instances, and reads them (SPEC sections 11, 13)."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from client_sdk.client.connection import PAGE, CallGroup, iterate
from client_sdk.id_patterns import quote_name
from client_sdk.models import Heartbeat, InstanceRegistration, ServiceDeclaration, WireModel, answers


class RegisteredService(answers.Service):
    """A service after its registration, and the warnings about its declared jobs."""

    warnings: list[answers.ProblemError]


class RegisteredInstance(answers.Instance):
    """An instance after its registration, and the warnings about new or changed jobs that it declares."""

    warnings: list[answers.ProblemError]


class Services(CallGroup):
    """The services of one scheduler. Every method raises SdkError; `Absent` if it does not exist."""

    async def put(
        self, name: str, declaration: ServiceDeclaration | Mapping[str, Any], *, force: bool | None = None
    ) -> RegisteredService:
        """Registers the service with its declared jobs; `force` applies the declaration at once."""
        path, body = _service(name), write_wire(declaration)
        return await self._connection.call(RegisteredService, "PUT", path, query={"force": force}, body=body)

    async def get(self, name: str) -> answers.Service:
        """The service, its declared jobs and its instances."""
        return await self._connection.read(answers.Service, _service(name))

    async def remove(self, name: str) -> None:
        """Removes the service; its jobs are destroyed after its grace period."""
        await self._connection.send("DELETE", _service(name))

    async def pause(self, name: str) -> answers.ServiceLine:
        """Steps for the service wait until it is resumed; what runs there goes on."""
        return await self._connection.call(answers.ServiceLine, "POST", f"{_service(name)}/pause")

    async def resume(self, name: str) -> answers.ServiceLine:
        """The steps that wait for the service are sent."""
        return await self._connection.call(answers.ServiceLine, "POST", f"{_service(name)}/resume")

    def list(self, *, page: int = PAGE) -> AsyncIterator[answers.ServiceLine]:
        """All services."""
        return iterate(self._connection, answers.ServiceLine, "/services", page=page)

    def drift(self, name: str, *, page: int = PAGE) -> AsyncIterator[answers.Drift]:
        """The jobs that differ from their declaration, and how."""
        return iterate(self._connection, answers.Drift, f"{_service(name)}/drift", page=page)

    async def register(
        self, name: str, instance_id: str, registration: InstanceRegistration | Mapping[str, Any]
    ) -> RegisteredInstance:
        """Registers an instance; it takes work from now on."""
        path, body = _instance(name, instance_id), write_wire(registration)
        return await self._connection.call(RegisteredInstance, "PUT", path, body=body)

    async def heartbeat(
        self, name: str, instance_id: str, *, load: float | None = None, draining: bool | None = None
    ) -> None:
        """Sends a heartbeat. Raises Absent if the instance must register again."""
        body = write_wire(Heartbeat(load=load, draining=draining))
        await self._connection.send("POST", f"{_instance(name, instance_id)}/heartbeat", body=body)

    async def deregister(self, name: str, instance_id: str) -> None:
        """Deregisters an instance. Raises Absent if it is not known."""
        await self._connection.send("DELETE", _instance(name, instance_id))


def write_wire(value: WireModel | Mapping[str, Any]) -> dict[str, Any]:
    """A request as sent; members that are None are left out."""
    if isinstance(value, WireModel):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dict(value)


def _instance(name: str, instance_id: str) -> str:
    return f"{_service(name)}/instances/{quote_name('instance', instance_id)}"


def _service(name: str) -> str:
    return f"/services/{quote_name('service', name)}"
