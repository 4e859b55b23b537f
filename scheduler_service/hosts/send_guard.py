"""Whether a call may still leave this process."""

from typing import Protocol

from scheduler_service.domain.wire import Token
from scheduler_service.ports.sending import MayGo, always


class SendGuard(Protocol):
    """Asked for each call before it is sent."""

    def admit(self, job_id: str) -> MayGo:
        """Called within a turn of the job; the result is asked again just before a call is sent."""

    def turn_back(self, job_id: str, token: Token) -> None:
        """The call was not sent, and is not alive any more. Never waits, never raises."""


class OpenSendGuard:
    """For a single node: no other node can have taken the job over."""

    def admit(self, job_id: str) -> MayGo:
        return always

    def turn_back(self, job_id: str, token: Token) -> None:
        return
