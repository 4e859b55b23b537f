"""One operation: a command on many things, its record in the store, its pieces, and rests between them."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.wire import Holder
from scheduler_service.ports.log import Log
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


WORK_SECONDS = 0.010
REST_SECONDS = 0.015
"""So long pieces begin, then so long none: an operation takes two and a half times as long as it could, and
the loop, the writer of the state and the disk are free for more than half of the time."""


class Pace:
    """The rests of all operations of a process together. `timer` counts seconds, `sleep` waits for them."""

    def __init__(
        self,
        *,
        timer: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._timer = timer
        self._sleep = sleep
        self._rested_at = timer()
        self._rest: asyncio.Future[None] | None = None

    def begin(self) -> None:
        """An operation begins: its first pieces need no rest before them."""
        self._rested_at = self._timer()

    def now(self) -> float:
        """The seconds of its timer."""
        return self._timer()

    async def pause(self, seconds: float) -> None:
        """Waits before something is asked again."""
        await self._sleep(seconds)

    async def wait(self) -> None:
        """Returns when a piece may begin, in the order of the calls; the loop does other things before."""
        await asyncio.sleep(0)
        if self._rest is None and self._timer() >= self._rested_at + WORK_SECONDS:
            self._rest = asyncio.ensure_future(self._take_rest())
        if self._rest is not None:
            # Whoever gives up waiting does not end the rest of the others.
            await asyncio.shield(self._rest)

    async def _take_rest(self) -> None:
        try:
            await self._sleep(REST_SECONDS)
        finally:
            self._rested_at = self._timer()
            self._rest = None


MOST_FAULTS = 20
"""After so many pieces in a row that a defect failed, the operation is interrupted."""
PATIENCE_SECONDS = 30.0
"""What the store does not take is asked again; so long without one piece done, and it is interrupted."""
AGAIN_SECONDS = 0.2
Work = Callable[[str], Awaitable[Outcome]]
"""Does one piece, named by its id; what it raises is a defect of this service."""


class OperationRun:
    """The pieces of `operation` that are not done yet, which are done `at_once` at a time, with rests.

    Those that meet a store or a process that is away are asked again behind the others, for
    `patience` seconds.
    """

    def __init__(
        self,
        *,
        operation: Operation,
        ids: Sequence[str],
        work: Work,
        at_once: int,
        pace: Pace,
        log: Log,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.operation = operation
        self._ids: Iterator[str] = iter(ids)
        self._work = work
        self._at_once = at_once
        self._pace = pace
        self._log = log
        self._patience = patience
        self._again: deque[tuple[str, Outcome]] = deque()
        self._failing_since: float | None = None
        self._defects = 0
        self._is_leaving = False

    def leave(self) -> None:
        """Nothing more begins: the process ends."""
        self._is_leaving = True

    async def work_off(self) -> None:
        """Does them all, until the operation is stopped, the store stays away, or the process ends."""
        self._pace.begin()
        async with asyncio.TaskGroup() as group:
            for _ in range(self._at_once):
                group.create_task(self._take())
        if self.operation.is_given_up:
            for piece, outcome in self._again:
                self.operation.take(piece, outcome)

    async def _take(self) -> None:
        while not self._is_over() and (piece := self._next()) is not None:
            await self._pace.wait()
            outcome = await self._do(piece)
            if outcome.is_passing:
                await self._put_off(piece, outcome)
                continue
            self._failing_since = None
            self._defects = self._defects + 1 if outcome.is_defect else 0
            self.operation.take(piece, outcome)

    def _is_over(self) -> bool:
        is_ended = self.operation.is_stopped or self.operation.is_given_up
        return is_ended or self._is_leaving or self._defects >= MOST_FAULTS

    def _next(self) -> str | None:
        piece = next(self._ids, None)
        if piece is None and self._again:
            return self._again.popleft()[0]
        return piece

    async def _put_off(self, piece: str, outcome: Outcome) -> None:
        """Has the piece asked again, or gives the operation up where nothing was done for too long."""
        self._again.append((piece, outcome))
        now = self._pace.now()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since >= self._patience:
            self.operation.is_given_up = True
        else:
            await self._pace.pause(AGAIN_SECONDS)

    async def _do(self, piece: str) -> Outcome:
        """What became of the piece; of a defect the log and the report say so, and the next one is done."""
        try:
            return await self._work(piece)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other pieces go on and the end is kept
            self._log("operation_failed", operationId=self.operation.operation_id, error=name_of(error))
            return Outcome(problem=_DEFECT, is_defect=True)


def name_of(error: BaseException) -> str:
    """The kind of a defect; its text may have what no log is to have."""
    return type(error).__name__


_STATUS = HTTPStatus.INTERNAL_SERVER_ERROR
_DETAIL = "something went wrong here; it is in the service's log, and it may have been done"
_DEFECT = {
    "type": "about:blank",
    "title": _STATUS.phrase,
    "status": int(_STATUS),
    "detail": _DETAIL,
    "errors": [{"pointer": "", "code": "internal", "message": _DETAIL}],
    "resp_code": int(_STATUS),
    "resp_msg": _DETAIL,
}
