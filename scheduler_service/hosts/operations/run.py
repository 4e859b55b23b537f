"""One operation under way: its pieces, a few at a time, with rests between them."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from http import HTTPStatus

from scheduler_service.hosts.operations.operation import Operation, Outcome
from scheduler_service.ports.log import Log

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
