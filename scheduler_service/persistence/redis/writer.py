"""The one writer: all writes that wait are one group, one script, one round trip."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from scheduler_service.persistence.common.fault_points import FaultPoint, FaultPoints
from scheduler_service.persistence.common.group_figures import GroupFigures, Verdict
from scheduler_service.persistence.common.write_thread import Entry, answer
from scheduler_service.persistence.common.writes import Forget, conflict, not_written, outcome_unknown
from scheduler_service.persistence.redis.encoding import damaged
from scheduler_service.persistence.redis.queues import Arguments, Step
from scheduler_service.persistence.redis.session import Session
from scheduler_service.persistence.redis.write_arguments import Write, write_arguments
from scheduler_service.ports.errors import StoreError, StoreUncertain, store_closed
from scheduler_service.ports.state import Commit

MAX_GROUP_BYTES = 4 << 20
"""The server does nothing else while a group is written."""


class Writer:
    """Writes in the order of `put`, in groups of at most `size`, one after the other.

    A write that conflicts, or that cannot be stored, fails alone. When the group cannot be written, each of
    its writes raises StoreUnavailable and nothing was written; where the outcome is unknown, each raises
    StoreUncertain. Where the server does not answer, what waits raises StoreUnavailable at the same moment,
    and is never sent. The next group is tried afresh.
    """

    def __init__(self, *, session: Session, place: str, size: int, faults: FaultPoints | None) -> None:
        self.groups = GroupFigures()
        self._session = session
        self._place = place
        self._size = size
        self._faults = faults
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Entry[Write]] = deque()
        self._came = asyncio.Event()
        self._is_closed = False
        self._task = self._loop.create_task(self._run())

    def put(self, write: Write, *, may_wait: bool = False) -> asyncio.Future[Any]:
        """See `common.writes.Writer`. A group forms while the last is written: `may_wait` adds nothing."""
        return self._put((write,), is_alone=True)

    def put_all(self, writes: Sequence[Write]) -> asyncio.Future[list[Verdict]]:
        """See `common.writes.Writer`."""
        return self._put(writes, is_alone=False)

    def count_waiting(self) -> int:
        """See `common.writes.Writer`."""
        return len(self._waiting)

    async def close(self) -> None:
        """Returns when all that was put in has its result."""
        self._is_closed = True
        self._came.set()
        await asyncio.shield(self._task)

    def _put(self, writes: Sequence[Write], *, is_alone: bool) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        if self._is_closed:
            future.set_exception(store_closed())
        else:
            self._waiting.append((writes, future, is_alone))
            self._came.set()
        return future

    async def _run(self) -> None:
        while self._waiting or not self._is_closed:
            if not self._waiting:
                self._came.clear()
                await self._came.wait()
                continue
            entries, began = self._take(), self._loop.time()
            verdicts = await self._serve([write for writes, _, _ in entries for write in writes])
            self.groups.note(verdicts, self._loop.time() - began)
            for _ in answer(entries, verdicts):
                await asyncio.sleep(0)
            if self._session.silence is not None:
                await self._refuse_waiting(self._session.silence)

    async def _refuse_waiting(self, silence: Exception) -> None:
        """What came while the server was waited for in vain is never sent: its callers waited as well."""
        entries = list(self._waiting)
        self._waiting.clear()
        refusal = not_written(self._place, silence)
        for _ in answer(entries, [refusal] * sum(len(writes) for writes, _, _ in entries)):
            await asyncio.sleep(0)

    def _take(self) -> list[Entry[Write]]:
        entries: list[Entry[Write]] = []
        count = 0
        while self._waiting and count < self._size:
            entries.append(self._waiting.popleft())
            count += len(entries[-1][0])
        return entries

    async def _serve(self, writes: list[Write]) -> list[Verdict]:
        verdicts: list[Verdict] = [None] * len(writes)
        group: dict[int, Arguments] = {}
        weight = 0
        silence: Exception | None = None
        for place, write in enumerate(writes):
            try:
                group[place] = write_arguments(write)
            except (OverflowError, ValueError, TypeError) as error:
                verdicts[place] = not_written(self._place, error)
                continue
            weight += sum(map(len, group[place]))
            if len(group) >= self._size or weight > MAX_GROUP_BYTES:
                silence = await self._write(writes, group, verdicts, silence)
                group, weight = {}, 0
        if group:
            await self._write(writes, group, verdicts, silence)
        return verdicts

    async def _write(
        self,
        writes: list[Write],
        group: dict[int, Arguments],
        verdicts: list[Verdict],
        silence: Exception | None,
    ) -> Exception | None:
        """Writes a group and sets its verdicts; `group` has the arguments by their place.

        `silence`: why the server was waited for in vain with the group before; then nothing is sent. Returns
        it for the next group.
        """
        found: Sequence[Verdict] = (
            await self._write_group(writes, group)
            if silence is None
            else [not_written(self._place, silence)] * len(group)
        )
        for place, verdict in zip(group, found, strict=True):
            verdicts[place] = verdict
        return self._session.silence

    async def _write_group(self, writes: list[Write], group: dict[int, Arguments]) -> Sequence[Verdict]:
        try:
            said = await self._send([part for arguments in group.values() for part in arguments])
            return self._read(writes, group, said)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result of each write
            failed = error if isinstance(error, StoreError) else not_written(self._place, error)
            return [failed] * len(group)

    def _read(self, writes: list[Write], places: Iterable[int], said: Sequence[bytes]) -> Sequence[Verdict]:
        try:
            return [_read_verdict(writes[place], text) for place, text in zip(places, said, strict=True)]
        except ValueError as error:  # also what msgspec raises
            raise StoreUncertain(f"What {self._place} said of a write cannot be read: {error}.") from error

    async def _send(self, arguments: Arguments) -> Sequence[bytes]:
        if self._faults is None:
            return await self._session.write(arguments)
        # The group is built already: its transaction is one command.
        for point in (FaultPoint.BEGIN, FaultPoint.WRITE):
            self._faults.before(point)
            self._faults.after(point)
        self._faults.before(FaultPoint.COMMIT)
        said = await self._session.write(arguments)
        try:
            self._faults.after(FaultPoint.COMMIT)
        except Exception as error:
            raise outcome_unknown(self._place, error) from error
        return said


_DAMAGED = b"damaged"


def _read_verdict(write: Write, said: bytes) -> Verdict:
    """The script answers nothing, `yes` or `no`, `damaged`, or the version that a commit conflicts with."""
    if isinstance(write, Step):
        return write.read(said)
    if isinstance(write, Forget):
        return damaged(write.job_id) if said == _DAMAGED else said == b"yes"
    if not said or not isinstance(write, Commit):
        return None
    if said == _DAMAGED:
        return damaged(write.entry.job_id)
    if said == b"absent":
        return conflict(write, None)
    _, sequence, uid = said.decode().split(":", 2)
    return conflict(write, (uid, sequence))
