"""`service://name` through Dapr service invocation: what it reaches, and what was not delivered."""

import msgspec

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, Sender, always
from scheduler_service.transport.service_urls import Directory

NOT_DELIVERED = "ERR_DIRECT_INVOKE"
INTERNAL = 500


class InvocationDirectory:
    """Knows every service: those of `known` by their address, all others by the sidecar on `http_port`."""

    def __init__(self, *, known: Directory, http_port: int) -> None:
        self._known = known
        self._base = f"http://127.0.0.1:{http_port}/v1.0/invoke"

    def address(self, name: str) -> str | None:
        """The base address of service `name`. Raises nothing."""
        return self._known.address(name) or f"{self._base}/{name}/method"

    def awaits_instances(self, name: str) -> bool:
        """Never: the sidecar knows who lives."""
        return False


class InvocationSender:
    """`ports.Sender` that tells an answer of the target from the sidecar's word that it was not reached."""

    def __init__(self, *, sender: Sender) -> None:
        self._sender = sender

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The target's answer, or why there is none. Raises nothing but CancelledError and NotSent."""
        outcome = await self._sender.send(request, may_go)
        if not isinstance(outcome, Answer) or outcome.status != INTERNAL:
            return outcome
        if request.url[:8].lower() != "service:" or not _is_sidecars(outcome.body):
            return outcome
        return Fault(
            FaultKind.CONNECT,
            f"{request.url.partition('?')[0]} was not delivered: the sidecar found no such service, or could "
            "not reach it; is it running under this app id?",
            outcome.elapsed,
        )

    async def close(self) -> None:
        """Closes what it stands on."""
        await self._sender.close()


class _Error(msgspec.Struct):
    """What daprd says of itself."""

    error_code: str = msgspec.field(name="errorCode", default="")


def _is_sidecars(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body, type=_Error).error_code == NOT_DELIVERED
    except msgspec.DecodeError:
        return False
