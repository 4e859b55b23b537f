"""One sending through the port, whose outcome is a value whatever happens."""

from scheduler_service.domain.wire import Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.hosts.core import Log
from scheduler_service.ports import MayGo, NotSent, Sender, always


async def send_once(sender: Sender, request: OutboundRequest, log: Log, may_go: MayGo = always) -> Outcome:
    """What came of `request`; a sender that breaks is a Fault. Raises CancelledError and NotSent alone."""
    try:
        return await sender.send(request, may_go)
    except NotSent:
        raise
    except Exception as error:  # noqa: BLE001 - a broken sender must leave nothing without an end
        log("sender_broke", error=repr(error))
        return Fault(FaultKind.CONNECT, f"the request could not be sent: {type(error).__name__}")
