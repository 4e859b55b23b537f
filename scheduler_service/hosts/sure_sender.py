"""A sender whose every call ends with an outcome, which is shown to whoever counts calls."""

from scheduler_service.domain.wire import Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import MayGo, NotSent, Sender, always
from scheduler_service.telemetry.decorators import ObserveCall


class SureSender:
    """An error of the sender behind it is a Fault (`ports.sending.Sender`).

    `observe_call` sees every outcome; a request that did not leave, or was abandoned, has none. Both are done
    in one coroutine, since each of its own would cost every call as much as the count itself.
    """

    def __init__(self, *, sender: Sender, log: Log, observe_call: ObserveCall | None) -> None:
        self._send = sender.send
        self._log = log
        self._observe_call = observe_call
        self.close = sender.close

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The outcome of `request`. Raises only CancelledError and NotSent."""
        try:
            outcome = await self._send(request, may_go)
        except NotSent:
            raise
        except Exception as error:  # noqa: BLE001 - every call must end, also when the sender is broken
            self._log("sender_failed", error=repr(error))
            outcome = Fault(FaultKind.CONNECT, f"the request could not be sent: {type(error).__name__}")
        if self._observe_call is not None:
            self._observe_call(outcome)
        return outcome
