"""One operation: a command on many jobs or executions, what became of each, and its record in the store."""

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.wire import Holder
from scheduler_service.ports.state import Remembered

RUNNING, DONE, CANCELLED, INTERRUPTED = "running", "done", "cancelled", "interrupted"
JOBS, EXECUTIONS = "jobs", "executions"
MOST_LISTED = 100
"""So many problems, and so many started executions, are listed; the others are counted."""


class StartedExecution(msgspec.Struct, frozen=True, rename="camel"):
    """An execution that an operation started."""

    job_id: str
    execution_id: str


class Outcome(msgspec.Struct, frozen=True):
    """What became of one piece: `problem` None: it is done, and `started` is the execution that it began.

    A problem has the members of RFC 9457. `is_passing`: nothing was done, or doing it again does no more,
    so it is asked again. `is_defect`: of this service, which the next ones may meet as well.
    """

    started: StartedExecution | None = None
    problem: Mapping[str, Any] | None = None
    is_passing: bool = False
    is_defect: bool = False


class Operation(msgspec.Struct, kw_only=True, rename="camel"):
    """How far an operation is; times are those of the wire.

    `digest` is that of the request, `first` are the first ids that it is about. `node` runs it, in its start
    `boot`. `is_repeatable`: what it is about is kept for a repetition of its request, in `parts` under the
    name `choice`; 0: it was not. `is_given_up`: the store did not take the last of it. `kept_at` (wall ms) is
    the moment of its record; None: it has none. A record of an earlier version lacks what that did not know.
    """

    operation_id: str
    kind: str
    action: str
    total: int
    created_by: str
    started_at: str
    updated_at: str
    tenant: str = ""
    first: list[str] = msgspec.field(default_factory=list)
    digest: bytes = b""
    state: str = RUNNING
    done: int = 0
    succeeded: int = 0
    failed: int = 0
    problems: list[dict[str, Any]] = msgspec.field(default_factory=list)
    more_problems: int = 0
    started: list[StartedExecution] = msgspec.field(default_factory=list)
    more_started: int = 0
    warnings: list[dict[str, str]] = msgspec.field(default_factory=list)
    ended_at: str | None = None
    is_stopped: bool = False
    is_repeatable: bool = False
    choice: str = ""
    parts: int = 0
    is_given_up: bool = False
    node: str = ""
    boot: str = ""
    kept_at: int | None = None

    def take(self, piece: str, outcome: Outcome) -> None:
        """One more piece, named by its id, is done or was refused."""
        self.done += 1
        if outcome.problem is None:
            self._succeed(outcome.started)
        else:
            self._fail(piece, outcome.problem)

    def _succeed(self, started: StartedExecution | None) -> None:
        self.succeeded += 1
        if started is not None and len(self.started) < MOST_LISTED:
            self.started.append(started)
        elif started is not None:
            self.more_started += 1

    def _fail(self, piece: str, problem: Mapping[str, Any]) -> None:
        self.failed += 1
        if len(self.problems) >= MOST_LISTED:
            self.more_problems += 1
            return
        is_job = self.kind == JOBS
        self.problems.append(
            {
                "jobId": read_piece(piece)[0] if is_job else None,
                "executionId": None if is_job else piece,
                "problem": problem,
            }
        )

    def stop(self) -> None:
        """Nothing more of it is to begin."""
        self.is_stopped = True

    def at_end(self, now: int) -> "Operation":
        """As it is once it has ended, at `now` (wall ms)."""
        is_whole = self.done >= self.total and not self.is_given_up
        state = DONE if is_whole else CANCELLED if self.is_stopped else INTERRUPTED
        return msgspec.structs.replace(self, state=state, ended_at=rfc3339(now))

    def interrupt(self) -> None:
        """Its process ended before it: when is not known, so the end is the last moment known of it."""
        self.state, self.ended_at = INTERRUPTED, self.updated_at

    def ended_with(self, holder: Holder) -> bool:
        """Whether an earlier start of this holder's node ran it, and left it as it is."""
        return self.state == RUNNING and self.node == holder.node and self.boot != holder.boot

    def wire(self) -> dict[str, Any]:
        """Its form in answers."""
        members: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in members.items() if name not in _INTERNAL}

    def kept(self, now: int) -> Remembered:
        """Its record in the store as of `now` (wall ms)."""
        self.updated_at, self.kept_at = rfc3339(now), now
        return Remembered(scope_of(self.tenant), self.operation_id, self.digest, _ENCODER.encode(self), now)


_INTERNAL = frozenset(
    {
        "tenant",
        "digest",
        "first",
        "isStopped",
        "boot",
        "isRepeatable",
        "choice",
        "parts",
        "isGivenUp",
        "keptAt",
    }
)
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Operation)


def write_piece(job_id: str, life: str) -> str:
    """A job that was chosen, in the life (uid) that it had then; empty: there was none."""
    return f"{job_id} {life}"


def read_piece(piece: str) -> tuple[str, str]:
    """The job and its life of a piece of `write_piece`."""
    job_id, _, life = piece.partition(" ")
    return job_id, life


def scope_of(tenant: str) -> str:
    """Where the records of a tenant's operations are kept."""
    return f"operations/{tenant}"


def read_kept(tenant: str, kept: Remembered) -> Operation:
    """The operation whose record this is."""
    operation = _DECODER.decode(kept.answer)
    operation.tenant, operation.digest, operation.kept_at = tenant, kept.digest, kept.created_at
    return operation
