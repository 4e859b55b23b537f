"""The one writer: all writes that wait are one group, one script, one round trip."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.common.fault_points import FaultPoint, FaultPoints
from scheduler_service.persistence.common.group_figures import GroupFigures, Verdict
from scheduler_service.persistence.common.write_thread import Entry, answer
from scheduler_service.persistence.common.writes import (
    Forget,
    Keep,
    Settle,
    StoreWrite,
    Written,
    conflict,
    not_written,
    outcome_unknown,
    pack,
)
from scheduler_service.persistence.redis.encoding import (
    DUE_STEADY,
    DUE_WALL,
    OPEN,
    ORDER_NAMES,
    UIDS,
    UNPLANNED,
    answer_key,
    batch_key,
    children,
    damaged,
    number,
    order,
    pack_answer,
    pack_batch,
    pack_definition,
    pack_job,
    pack_pairs,
    text,
)
from scheduler_service.persistence.redis.queues import Arguments, Step, queued_arguments
from scheduler_service.persistence.redis.session import Session
from scheduler_service.ports.catalogue import CatalogueEntry, JobSort
from scheduler_service.ports.errors import StoreError, StoreUncertain, store_closed
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered

MAX_GROUP_BYTES = 4 << 20
"""The server does nothing else while a group is written."""

Write = StoreWrite | Step

_NO, _YES = b"0", b"1"
_NEXT = ORDER_NAMES[JobSort.NEXT_FIRE_TIME]


class Writer:
    """Writes in the order of `put`, in groups of at most `size`, one after the other.

    A write that conflicts, or that cannot be stored, fails alone. When the group cannot be written, each of
    its writes raises StoreUnavailable and nothing was written; where the outcome is unknown, each raises
    StoreUncertain. The next group is tried afresh.
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
        for place, write in enumerate(writes):
            try:
                group[place] = write_arguments(write)
            except (OverflowError, ValueError, TypeError) as error:
                verdicts[place] = not_written(self._place, error)
                continue
            weight += sum(map(len, group[place]))
            if len(group) >= self._size or weight > MAX_GROUP_BYTES:
                await self._write(writes, group, verdicts)
                group, weight = {}, 0
        if group:
            await self._write(writes, group, verdicts)
        return verdicts

    async def _write(self, writes: list[Write], group: dict[int, Arguments], verdicts: list[Verdict]) -> None:
        """Writes a group and sets its verdicts; `group` has the arguments by their place."""
        try:
            said = await self._send([part for arguments in group.values() for part in arguments])
            found: Sequence[Verdict] = self._read(writes, group, said)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result of each write
            failed = error if isinstance(error, StoreError) else not_written(self._place, error)
            found = [failed] * len(group)
        for place, verdict in zip(group, found, strict=True):
            verdicts[place] = verdict

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


def write_arguments(write: Write) -> Arguments:
    """The arguments of one write, as `write.lua` takes them.

    Raises OverflowError, ValueError, TypeError: not storable.
    """
    match write:
        case Commit():
            return _commit(write)
        case Settle():
            return _settle(write)
        case Written(keys):
            return [b"written", _count(keys), *(batch_key(uid, sequence) for uid, sequence in keys)]
        case Remembered():
            return [b"remember", *_answer(write)]
        case Forget(job_id):
            return [b"forget", job_id.encode()]
        case Keep(key, value):
            return [b"keep", key.encode(), b"%d" % value]
        case Step(arguments):
            return list(arguments)


def _commit(commit: Commit) -> Arguments:
    entry = commit.entry
    found = [
        b"commit", entry.job_id.encode(), entry.uid.encode(), b"%d" % commit.expected,
        b"%d" % commit.sequence, _YES if commit.document is None else _NO, pack_job(commit),
        pack_pairs(_face(entry)), pack_pairs(_turn(commit)), entry.tenant.encode(),
        b"%d" % entry.live, b"%d" % entry.waiting,
    ]  # fmt: skip
    if commit.definition is None:
        found.append(_NO)
    else:
        found += (_YES, b"%d" % entry.revision, pack_definition(commit))
    found += _batch(commit.batch)
    found.append(_count(commit.deliveries))
    for delivery in commit.deliveries:
        found += (delivery.delivery_id.encode(), pack(delivery))
    queued = [arguments for write in commit.queued for arguments in queued_arguments(write)]
    found += (_count(queued), *(part for arguments in queued for part in arguments))
    if commit.remembered is None:
        found.append(_NO)
    else:
        found += (_YES, *_answer(commit.remembered))
    return found


def _face(entry: CatalogueEntry) -> list[tuple[str, bytes]]:
    """The job's places in indexes of values that few turns alter."""
    tenant, state = entry.tenant, entry.state
    values = {
        JobSort.JOB_ID: b"",
        JobSort.JOB_NAME: text(entry.job_name),
        JobSort.CREATED_AT: number(entry.created_at),
        JobSort.UPDATED_AT: number(entry.updated_at),
    }
    pairs = [(order(tenant, state, ORDER_NAMES[sort]), value) for sort, value in values.items()]
    pairs.append((UIDS, text(entry.uid)))
    if entry.parent_job is not None:
        pairs.append((children(entry.parent_job), b""))
    return pairs


def _turn(commit: Commit) -> list[tuple[str, bytes]]:
    """The job's places in indexes of values that any turn may alter. A destroyed job has no alarm."""
    entry, due = commit.entry, commit.due
    pairs = [
        (order(entry.tenant, entry.state, UNPLANNED), b"")
        if entry.next_fire is None
        else (order(entry.tenant, entry.state, _NEXT), number(entry.next_fire))
    ]
    if entry.live > 0:
        pairs.append((OPEN, b""))
    if commit.document is None:
        return pairs
    if due.wall is not None:
        pairs.append((DUE_WALL, number(due.wall)))
    if due.steady is not None:
        pairs.append((DUE_STEADY, number(due.steady)))
    return pairs


def _batch(batch: Batch | None) -> Arguments:
    if batch is None:
        return [_NO]
    return [_YES, batch_key(batch.uid, batch.sequence), pack_batch(batch)]


def _settle(write: Settle) -> Arguments:
    found = [b"settle", _count(write.settlements)]
    for one in write.settlements:
        found += (one.delivery.delivery_id.encode(), _YES if one.done else _NO)
        found.append(b"" if one.done else pack(one.delivery))
        found += _batch(one.batch)
    return found


def _answer(kept: Remembered) -> Arguments:
    """The answer, and the moment before which others are deleted: they are kept for a day."""
    return [answer_key(kept.scope, kept.key), pack_answer(kept), number(kept.created_at - DAY)]


def _count(items: Sequence[object]) -> bytes:
    return b"%d" % len(items)
