"""The gate through which calls leave this process."""

from typing import Protocol

from scheduler_service.domain.wire import Token
from scheduler_service.ports.sending import MayGo, always


class SendGuard(Protocol):
    """What a crew asks of each call."""

    def admit(self, job_id: str) -> MayGo:
        """Within a turn of the job: whether what it starts may leave, asked again when it is about to."""

    def turn_back(self, job_id: str, token: Token) -> None:
        """The call was not let out, and is not alive any more. Never waits, never raises."""


class OpenSendGuard:
    """Where there is one node: whatever was committed here is nobody else's."""

    def admit(self, job_id: str) -> MayGo:
        """Everything may leave."""
        return always

    def turn_back(self, job_id: str, token: Token) -> None:
        """Nothing is ever turned back."""
