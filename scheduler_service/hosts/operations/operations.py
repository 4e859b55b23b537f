"""The operations of this process, and through the store those of other ones and of earlier starts."""

import asyncio
import zlib
from collections.abc import Sequence

import msgspec

from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.operations.operation_run import (
    PATIENCE_SECONDS,
    RUNNING,
    Operation,
    OperationRun,
    Pace,
    Work,
    name_of,
    read_kept,
    scope_of,
)
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import REMEMBERED_MS, Remembered, RequestStore

MOST_RUNNING = 4
"""Operations of one tenant that run at once in one process."""
AT_ONCE = 8
"""Pieces of one operation that are under way at once; firings come between them, and in the rests."""
SAVE_SECONDS = 2.0
SILENCE_MS = 10_000
"""A running operation that was not saved for so long has ended with its process."""
LEAVING = "this process ends; ask again once it is back"
PART = 5_000
"""So many of the ids that an operation is about are kept in one row, about 100 KB."""
RECORD_SECONDS = 1.0
"""So much of the time of a stop is kept for the record of the end."""


class NoRoom(PunctualError):
    """No further operation may run now; the message says why."""


class Operations:
    """Begins operations, attends to them until their end is durable, and finds them.

    Their records are kept for 24 hours. `holder` is this process. `at_once`, `save_seconds` and `patience`
    (seconds, see `Run`) are for tests.
    """

    def __init__(
        self,
        *,
        store: RequestStore,
        clock: Clock,
        holder: Holder,
        log: Log,
        at_once: int = AT_ONCE,
        save_seconds: float = SAVE_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._log = log
        self._at_once = at_once
        self._save_seconds = save_seconds
        self._patience = patience
        self._pace = Pace()
        self._runs: dict[tuple[str, str], OperationRun] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._is_leaving = False

    async def find(self, tenant: str, operation_id: str) -> Operation | None:
        """The operation as it is now, or as it was kept; None: it is not known. Raises StoreUnavailable.

        One that has ended is shown so only when its end is durable.
        """
        if (run := self._runs.get((tenant, operation_id))) is not None:
            return run.operation
        now = self._clock.now().wall
        kept = await self._store.recall(scope_of(tenant), operation_id, now - REMEMBERED_MS)
        if kept is None:
            return None
        operation = read_kept(tenant, kept)
        is_silent = operation.state == RUNNING and now - kept.created_at > SILENCE_MS
        if is_silent or operation.ended_with(self._holder):
            operation.interrupt()
        return operation

    def check_room(self, tenant: str) -> None:
        """Raises NoRoom where no further operation of the tenant may run now."""
        if self._is_leaving:
            raise NoRoom(LEAVING)
        if sum(owner == tenant for owner, _ in self._runs) >= MOST_RUNNING:
            raise NoRoom(f"{MOST_RUNNING} operations are running; wait for one, or cancel one")

    async def start(self, operation: Operation, ids: Sequence[str], work: Work) -> Operation:
        """Begins with `operation`, which does `work` on each of `ids`; returns when its record is durable.

        Its `kept_at` is that of the record which it goes on with. Returns the one that was begun under this
        id since, here or at another node, where there is one. Raises NoRoom, StoreError, and whatever else
        the store raises: nothing was begun.
        """
        name = (operation.tenant, operation.operation_id)
        if name in self._runs:
            return self._runs[name].operation
        self.check_room(operation.tenant)
        operation.node, operation.boot = self._holder.node, self._holder.boot
        run = OperationRun(
            operation=operation,
            ids=ids,
            work=work,
            at_once=self._at_once,
            pace=self._pace,
            log=self._log,
            patience=self._patience,
        )
        self._runs[name] = run
        saved: asyncio.Future[Operation] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._attend(run, ids, saved))
        self._tasks[name] = task
        task.add_done_callback(lambda ended: self._forget(name, ended, saved))
        return await asyncio.shield(saved)

    async def choice(self, operation: Operation) -> list[str] | None:
        """What the operation is about, as it was chosen; None: that was not kept. Raises StoreUnavailable."""
        chosen, since = list[str](), self._clock.now().wall - REMEMBERED_MS
        for part in range(operation.parts):
            key = _part(operation, part)
            kept = await self._store.recall(_choices(operation.tenant), key, since)
            if kept is None:
                return None
            chosen += _DECODER.decode(zlib.decompress(kept.answer))
        return chosen if operation.parts else None

    async def wait(self, operation: Operation, seconds: float) -> None:
        """Returns when the operation has ended, or after `seconds`."""
        task = self._tasks.get((operation.tenant, operation.operation_id))
        if task is not None:
            await asyncio.wait({task}, timeout=seconds)

    async def cancel(self, operation: Operation) -> None:
        """Ends the operation before its next piece, wherever it runs. Raises StoreError."""
        if operation.state != RUNNING:
            return
        run = self._runs.get((operation.tenant, operation.operation_id))
        if run is None:
            await self._store.remember(_wish(operation, self._clock.now().wall))
            return
        run.operation.stop()
        await self.wait(operation, self._save_seconds)

    async def stop(self, grace: int) -> None:
        """Lets no piece begin, and waits at most `grace` ms: for those under way, and the record of the end.

        What is left of an operation is `interrupted`, and done when it is asked for again under its key.
        """
        self._is_leaving = True
        for run in self._runs.values():
            run.leave()
        tasks = list(self._tasks.values())
        if not tasks:
            return
        seconds = grace / SECOND
        await asyncio.wait(tasks, timeout=max(seconds - RECORD_SECONDS, seconds / 2))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=min(RECORD_SECONDS, seconds / 2))

    def _forget(
        self, name: tuple[str, str], task: "asyncio.Task[None]", saved: "asyncio.Future[Operation]"
    ) -> None:
        """It may have begun anew since its end was shown; who waits for `saved` hears what happened."""
        if self._tasks.get(name) is task:
            del self._tasks[name]
            self._runs.pop(name, None)
        error = NoRoom(LEAVING) if task.cancelled() else task.exception()
        if error is None:
            return
        if not saved.done():
            saved.set_exception(error)
        elif not task.cancelled():
            self._log("operation_failed", operationId=name[1], error=name_of(error))

    async def _attend(
        self, run: OperationRun, ids: Sequence[str], saved: "asyncio.Future[Operation]"
    ) -> None:
        """Runs the operation and keeps its record up to date; does nothing where another began it."""
        operation = run.operation
        if operation.is_repeatable:
            await self._keep_choice(operation, ids)
        if (begun := await self._begin(operation)) is not None:
            saved.set_result(begun)
            return
        saved.set_result(operation)
        running = asyncio.create_task(run.work_off())
        try:
            while not running.done():
                await asyncio.wait({running}, timeout=self._save_seconds)
                if not running.done():
                    await self._exchange(operation)
        finally:
            running.cancel()
            await self._keep_end(operation)
        running.result()

    async def _keep_choice(self, operation: Operation, ids: Sequence[str]) -> None:
        """Keeps what the operation is about, before its record says that it was begun. Raises StoreError."""
        scope, now = _choices(operation.tenant), self._clock.now().wall
        operation.parts = max(1, -(-len(ids) // PART))
        for part in range(operation.parts):
            some = msgspec.json.encode(ids[part * PART : (part + 1) * PART])
            packed = zlib.compress(some, 1)
            await self._store.remember(
                Remembered(scope, _part(operation, part), operation.digest, packed, now)
            )

    async def _begin(self, operation: Operation) -> Operation | None:
        """Writes its first record, or that with which it goes on; the operation of who did so before.

        A request that comes twice at one moment, at two nodes or here, may have chosen twice: the first
        record decides which choice counts. Raises StoreError.
        """
        now, before = self._clock.now().wall, operation.kept_at
        since = now - REMEMBERED_MS if before is None else before + 1
        if await self._store.remember_first(operation.kept(max(now, since)), since):
            return None
        del self._runs[operation.tenant, operation.operation_id]
        return await self.find(operation.tenant, operation.operation_id)

    async def _exchange(self, operation: Operation) -> None:
        """Keeps the record, and learns whether the operation is to end; nothing while the store is away."""
        now = self._clock.now().wall
        try:
            await self._store.remember(operation.kept(now))
            scope = _wishes(operation.tenant)
            if await self._store.recall(scope, operation.operation_id, now - REMEMBERED_MS) is not None:
                operation.stop()
        except StoreError:
            return

    async def _keep_end(self, operation: Operation) -> None:
        """Writes the end at once, and shows it when it is durable; tried until the store takes it."""
        ended = operation.at_end(self._clock.now().wall)
        while True:
            try:
                await self._store.remember(ended.kept(self._clock.now().wall))
            except StoreError:
                if self._is_leaving:
                    return
                await asyncio.sleep(self._save_seconds)
                continue
            operation.state, operation.ended_at = ended.state, ended.ended_at
            operation.updated_at = ended.updated_at
            del self._runs[operation.tenant, operation.operation_id]
            return


def _wish(operation: Operation, now: int) -> Remembered:
    return Remembered(_wishes(operation.tenant), operation.operation_id, operation.digest, b"{}", now)


_DECODER = msgspec.json.Decoder(list[str])


def _part(operation: Operation, part: int) -> str:
    """The key of a part of its choice; an earlier version had no name for that."""
    return f"{operation.choice or operation.operation_id}/{part}"


def _choices(tenant: str) -> str:
    return f"{scope_of(tenant)}/chosen"


def _wishes(tenant: str) -> str:
    return f"{scope_of(tenant)}/cancel"
