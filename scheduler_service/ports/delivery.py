"""The way of an event to its job."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from scheduler_service.domain.events import Event
from scheduler_service.domain.replies import Reply
from scheduler_service.engine.program import Program
from scheduler_service.ports.state import Remembered


class Definition(msgspec.Struct, frozen=True, gc=False):
    """A checked definition on its way into a turn: the text as posted, and what it compiles to."""

    text: bytes
    program: Program


class Deliver(Protocol):
    """The way to a job, wherever it lives."""

    async def __call__(
        self,
        job_id: str,
        event: Event,
        *,
        definition: Definition | None = None,
        remembered: Remembered | None = None,
        answer: Callable[[Reply], bytes] | None = None,
    ) -> Reply:
        """Takes one turn and returns its reply after its commit. Raises StoreError: nothing was done.

        Under `remembered` the turn is taken once: where its key is known already, the reply is Recalled.
        `answer` makes the bytes that are kept from the reply; a Refusal is not kept.
        """


Compile = Callable[[bytes], Program]
