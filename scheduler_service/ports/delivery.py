"""The way of an event to its job: a `Command`, delivered wherever the job lives."""

from collections.abc import Awaitable, Callable

import msgspec

from scheduler_service.domain.audit_acts import Act
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import Event
from scheduler_service.engine.program import Program
from scheduler_service.ports.state import Remembered


class Definition(msgspec.Struct, frozen=True, gc=False):
    """A checked definition on its way into a turn: the text as posted, and what it compiles to.

    `weight`: what `engine.program.weigh` says of the text, where somebody has asked it already.
    """

    text: bytes
    program: Program
    weight: int | None = None


class Command(msgspec.Struct, frozen=True, gc=False):
    """An event on its way to a job, with everything that its turn needs.

    `definition` comes with Created and Updated. Under `remembered` the turn is taken once: where its
    Idempotency-Key is known already, the reply is Recalled. `answer` turns the reply into the bytes that are
    kept under the key; a Refusal is not kept. `act`: who changes the job with it, for the audit; None: the
    event is no change by anybody.
    """

    event: Event
    definition: Definition | None = None
    remembered: Remembered | None = None
    answer: Callable[[Reply], bytes] | None = None
    act: Act | None = None


Deliver = Callable[[str, Command], Awaitable[Reply]]
"""Takes one turn on a job, wherever it lives, and gives its reply after its commit. Raises StoreError."""


Compile = Callable[[bytes, str], Awaitable[Program]]
"""Compiles a stored definition of a tenant, which is never refused.

`Program.problems` says what of it cannot be done.
"""
