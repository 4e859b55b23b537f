"""One operation under way: its pieces, a few at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from http import HTTPStatus

from scheduler_service.hosts.operations.operation import Operation, Outcome
from scheduler_service.hosts.operations.pace import Pace
from scheduler_service.ports.log import Log

MOST_FAULTS = 20
"""After so many pieces in a row that the store or a defect failed, the operation is interrupted."""

Work = Callable[[str], Awaitable[Outcome]]
"""Does one piece, named by its id; what it raises is a defect of this service."""


class Run:
    """The pieces of `operation` that are not done yet, which are done `at_once` at a time, with rests."""

    def __init__(
        self, *, operation: Operation, ids: Sequence[str], work: Work, at_once: int, pace: Pace, log: Log
    ) -> None:
        self.operation = operation
        self._ids: Iterator[str] = iter(ids)
        self._work = work
        self._at_once = at_once
        self._pace = pace
        self._log = log
        self._faults = 0
        self._is_leaving = False

    def leave(self) -> None:
        """Nothing more begins: the process ends."""
        self._is_leaving = True

    async def work_off(self) -> None:
        """Does them all, until the operation is stopped, the store is away, or the process ends."""
        self._pace.begin()
        async with asyncio.TaskGroup() as group:
            for _ in range(self._at_once):
                group.create_task(self._take())

    async def _take(self) -> None:
        for piece in self._ids:
            await self._pace.wait()
            outcome = await self._do(piece)
            self._faults = self._faults + 1 if outcome.is_store_fault else 0
            self.operation.take(piece, outcome)
            if self._is_leaving or self.operation.is_stopped or self._faults >= MOST_FAULTS:
                return

    async def _do(self, piece: str) -> Outcome:
        """What became of the piece; of a defect the log and the report say so, and the next one is done."""
        try:
            return await self._work(piece)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other pieces go on and the end is kept
            self._log("operation_failed", operationId=self.operation.operation_id, error=name_of(error))
            return Outcome(problem=_DEFECT, is_store_fault=True)


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
