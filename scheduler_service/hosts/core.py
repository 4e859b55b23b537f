"""What a turn needs of the core, handed in by `app`, so that a turn can be tried with a smaller one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from scheduler_service.domain.document import Document
from scheduler_service.domain.effects import Effect
from scheduler_service.domain.events import Event
from scheduler_service.domain.moments import Due, Now
from scheduler_service.domain.records import Record
from scheduler_service.engine.decision import Decision, Job
from scheduler_service.engine.program import Program
from scheduler_service.engine.status import Summary
from scheduler_service.ports.delivery import Compile


class Core(msgspec.Struct, frozen=True):
    """The pure functions behind a turn, from `engine.machine`, `.snapshot`, `.status` and `.compile`."""

    decide: Callable[[Job, Event, Now], Decision]
    encode: Callable[[Document], bytes]
    decode: Callable[[bytes], Document]
    needs_commit: Callable[[Document | None, Document | None], bool]
    due: Callable[[Job], Due]
    summarize: Callable[[Job], Summary]
    compile: Compile


class Redact(Protocol):
    """`Masking.redact_all`: what of some records may be written."""

    def __call__(self, records: Sequence[Record], *, detail: str | None = None) -> tuple[Record, ...]:
        """Masked and cut; `detail` is the job's `historyDetail`, None: the setting."""


class Act(Protocol):
    """Starts the effects of a turn; never waits, never raises."""

    def __call__(self, job_id: str, effects: tuple[Effect, ...], programs: Mapping[int, Program]) -> None:
        """`programs` are those of the job after the turn."""
