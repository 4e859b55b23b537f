"""`service://name` through Dapr service invocation: the addresses, and requests that were not delivered."""

import msgspec

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, Sender, always
from scheduler_service.transport.service_urls import Directory

NOT_DELIVERED = "ERR_DIRECT_INVOKE"
INTERNAL_SERVER_ERROR = 500


class InvocationDirectory:
    """Resolves every service: those of `known` to their address, all others to the sidecar on `http_port`."""

    def __init__(self, *, known: Directory, http_port: int) -> None:
        self._known = known
        self._base = f"http://127.0.0.1:{http_port}/v1.0/invoke"

    def address(self, name: str) -> str | None:
        """The base address of service `name`. Raises nothing."""
        return self._known.address(name) or f"{self._base}/{name}/method"

    def awaits_instances(self, name: str) -> bool:
        """Never: the sidecar resolves instances itself."""
        return False


class InvocationSender:
    """`ports.Sender` that turns the sidecar's own "target not reached" answer into a Fault."""

    def __init__(self, *, sender: Sender) -> None:
        self._sender = sender

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The target's answer, or why there is none. Raises nothing but CancelledError and NotSent."""
        outcome = await self._sender.send(request, may_go)
        if not isinstance(outcome, Answer) or outcome.status != INTERNAL_SERVER_ERROR:
            return outcome
        if request.url[:8].lower() != "service:" or not _is_from_sidecar(outcome.body):
            return outcome
        return Fault(
            FaultKind.CONNECT,
            f"{request.url.partition('?')[0]} was not delivered: the sidecar found no such service, or could "
            "not reach it; is it running under this app id?",
            outcome.elapsed,
        )

    async def close(self) -> None:
        """Closes the sender below it."""
        await self._sender.close()


class _SidecarError(msgspec.Struct):
    """An error document of daprd itself."""

    error_code: str = msgspec.field(name="errorCode", default="")


def _is_from_sidecar(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body, type=_SidecarError).error_code == NOT_DELIVERED
    except msgspec.DecodeError:
        return False
