"""Robots of chats, to which alerts are sent: when a message may go, its signature, and what became of it."""

from collections import deque
from collections.abc import Callable, Mapping

import msgspec

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.sending import Sender
from scheduler_service.telemetry.alerts.alert_receivers import Limit, Receiver, read_refusal

FindSecret = Callable[[], str | None]
"""The secret as it is now; None: there is none."""


class RobotPace:
    """The moments (steady ms) of the latest messages of one robot, which takes no more than its `limits`."""

    def __init__(self, limits: tuple[Limit, ...]) -> None:
        self._limits = limits
        self._sent: deque[int] = deque(maxlen=max(limit.most for limit in limits))

    def wait(self, now: int) -> int:
        """For how many ms the next message has to wait."""
        full = [limit for limit in self._limits if len(self._sent) >= limit.most]
        return max([0, *(self._sent[-limit.most] + limit.within - now for limit in full)])

    def note(self, now: int) -> None:
        """A message goes now."""
        self._sent.append(now)


class ChatRobot:
    """One robot as one alert uses it; alerts with the same address have one `pace`.

    `find_secret` None: it is not signed. `secret` is how settings name it.
    """

    def __init__(
        self,
        *,
        receiver: Receiver,
        pace: RobotPace,
        clock: Clock,
        secret: str = "",
        find_secret: FindSecret | None = None,
    ) -> None:
        self._receiver = receiver
        self._pace = pace
        self._clock = clock
        self._secret = secret
        self._find_secret = find_secret

    def wait(self) -> int:
        """For how many ms a message has to wait."""
        return self._pace.wait(self._clock.now().steady)

    async def send(self, sender: Sender, request: OutboundRequest) -> Outcome:
        """One try, with a signature of this moment. As `ports.sending.Sender.send`."""
        now = self._clock.now()
        signed = self._sign(request, now.wall)
        if isinstance(signed, Fault):
            return signed
        self._pace.note(now.steady)
        return await sender.send(signed)

    def refuse(self, outcome: Outcome) -> str | None:
        """What the receiver says of a message that it has not taken; None: it has, or has not answered."""
        if not isinstance(outcome, Answer):
            return None
        return read_refusal(self._receiver, outcome.status, outcome.body)

    def _sign(self, request: OutboundRequest, now: int) -> OutboundRequest | Fault:
        sign = self._receiver.sign
        if self._find_secret is None or sign is None:
            return request
        secret = self._find_secret()
        if secret is None:
            return Fault(FaultKind.TEMPLATE, f"secret: {self._secret}: there is no secret of that name")
        try:
            signed = sign(request.url, request.body or b"", secret, now)
        except ValueError as why:
            return Fault(FaultKind.TEMPLATE, f"secret: {why}")
        return msgspec.structs.replace(request, url=signed.url, body=signed.body)


Robots = Mapping[str, ChatRobot]
"""By the names of their alerts."""
NO_ROBOTS: Robots = {}
