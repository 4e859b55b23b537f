"""A sender whose every call ends with an outcome, which is shown to whoever counts calls."""

from scheduler_service.domain.wire import Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import MayGo, NotSent, Sender, always
from scheduler_service.telemetry.decorators import ObserveCall


class SureSender:
    """An error of the sender behind it is a Fault (`ports.sending.Sender`).

    `observe_call` sees every outcome; a request that did not leave, or was abandoned, has none. `begin` only
    sends, for whoever does the rest by `explain` and `show`: a coroutine more costs more than the count.
    """

    def __init__(self, *, sender: Sender, log: Log, observe_call: ObserveCall | None) -> None:
        self.begin = sender.send
        self._log = log
        self.show = observe_call
        self.close = sender.close

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The outcome of `request`. Raises only CancelledError and NotSent."""
        try:
            outcome = await self.begin(request, may_go)
        except NotSent:
            raise
        except Exception as error:  # noqa: BLE001 - every call must end, also when the sender is broken
            outcome = self.explain(error)
        if self.show is not None:
            self.show(outcome)
        return outcome

    def explain(self, error: Exception) -> Outcome:
        """The outcome of a request at which the sender failed."""
        self._log("sender_failed", error=repr(error))
        return Fault(FaultKind.CONNECT, f"the request could not be sent: {type(error).__name__}")
