"""Long work on many things: a few pieces at a time, with its progress, its end, and a report."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from http import HTTPStatus

from scheduler_service.api.idempotency import key_reused
from scheduler_service.api.operation import (
    INTERRUPTED,
    RUNNING,
    Operation,
    Started,
    read_kept,
    scope_of,
)
from scheduler_service.api.responses import ApiProblem, refuse, store_problem
from scheduler_service.domain.moments import DAY
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import Remembered, RequestStore

MOST_RUNNING = 4
"""Operations that run at once in one process."""
AT_ONCE = 8
"""Pieces of one operation that are under way at once: firings come between them."""
MOST_KNOWN = 100
"""Operations that are known without asking the store."""
MOST_FAULTS = 20
"""After so many pieces in a row that the store failed, the operation is interrupted."""
SAVE_SECONDS = 2.0
SILENCE_MS = 10_000
"""A running operation that was not saved for so long has ended with its process."""

Work = Callable[[str], Awaitable[Started | None]]
"""Does one piece, named by its id. Raises ApiProblem where it is refused, StoreError."""


class Operations:
    """The operations of this process, and through the store those of other ones and of earlier starts.

    Their records are kept for 24 hours. `at_once` and `save_seconds` are for tests.
    """

    def __init__(self, *, at_once: int = AT_ONCE, save_seconds: float = SAVE_SECONDS) -> None:
        self._at_once = at_once
        self._save_seconds = save_seconds
        self._known: OrderedDict[tuple[str, str], Operation] = OrderedDict()
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def find(
        self, store: RequestStore, clock: Clock, tenant: str, operation_id: str, digest: bytes | None = None
    ) -> Operation | None:
        """The operation as it is now, or as it was kept; None: it is not known.

        Raises ApiProblem (422): it was asked for under this Idempotency-Key, with another `digest`;
        StoreUnavailable.
        """
        operation = self._known.get((tenant, operation_id))
        if operation is None:
            now = clock.now().wall
            kept = await store.recall(scope_of(tenant), operation_id, now - DAY)
            if kept is None:
                return None
            operation = read_kept(tenant, kept)
            if operation.state == RUNNING and now - kept.created_at > SILENCE_MS:
                operation.state = INTERRUPTED
        if digest is not None and digest != operation.digest:
            raise key_reused()
        return operation

    def check_room(self) -> None:
        """Raises ApiProblem (429) where no further operation may run now."""
        if sum(self._known[name].state == RUNNING for name in self._tasks) >= MOST_RUNNING:
            message = f"{MOST_RUNNING} operations are running; wait for one, or cancel one"
            problem = refuse(HTTPStatus.TOO_MANY_REQUESTS, "", "limit", message)
            problem.headers = (("retry-after", "1"),)
            raise problem

    async def start(
        self, store: RequestStore, clock: Clock, operation: Operation, ids: Sequence[str], work: Work
    ) -> Operation:
        """Begins with `operation`, which does `work` on each of `ids`; returns when its record is durable.

        Returns the one that runs already under this id, where there is one. Raises ApiProblem (429),
        StoreError: nothing was begun.
        """
        name = (operation.tenant, operation.operation_id)
        if name in self._tasks:
            return self._known[name]
        self.check_room()
        run = _Run(operation, iter(ids), work)
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._known[name] = operation
        self._known.move_to_end(name)
        task = asyncio.create_task(self._attend(store, clock, run, saved))
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._end(name))
        await asyncio.shield(saved)
        return operation

    async def wait(self, operation: Operation, seconds: float) -> None:
        """Returns when the operation has ended, or after `seconds`."""
        task = self._tasks.get((operation.tenant, operation.operation_id))
        if task is not None:
            await asyncio.wait({task}, timeout=seconds)

    async def cancel(self, store: RequestStore, clock: Clock, operation: Operation) -> None:
        """Ends the operation before its next piece, wherever it runs. Raises StoreError."""
        if operation.state != RUNNING:
            return
        if self._known.get((operation.tenant, operation.operation_id)) is operation:
            operation.stop()
            await self.wait(operation, self._save_seconds)
        else:
            await store.remember(_wish(operation, clock.now().wall))

    def _end(self, name: tuple[str, str]) -> None:
        del self._tasks[name]
        for old in [name for name in self._known if name not in self._tasks][:-MOST_KNOWN]:
            del self._known[old]

    async def _attend(
        self, store: RequestStore, clock: Clock, run: "_Run", saved: "asyncio.Future[None]"
    ) -> None:
        """Runs the operation and keeps its record up to date."""
        operation = run.operation
        try:
            await store.remember(operation.kept(clock.now().wall))
        except StoreError as error:
            self._known.pop((operation.tenant, operation.operation_id), None)
            saved.set_exception(error)
            return
        saved.set_result(None)
        running = asyncio.create_task(run.work_off(self._at_once))
        try:
            while not running.done():
                await asyncio.wait({running}, timeout=self._save_seconds)
                if not running.done():
                    await _exchange(store, clock, operation)
        finally:
            running.cancel()
            operation.end(clock.now().wall, is_whole=run.is_whole)
        await _exchange(store, clock, operation)
        running.result()


class _Run:
    """The pieces of an operation that are not done yet."""

    def __init__(self, operation: Operation, ids: Iterator[str], work: Work) -> None:
        self.operation = operation
        self.is_whole = False
        self._ids = ids
        self._work = work
        self._faults = 0

    async def work_off(self, at_once: int) -> None:
        """Does them all, `at_once` at a time, until the operation is stopped or the store is away."""
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(self._take())
        self.is_whole = self.operation.done >= self.operation.total

    async def _take(self) -> None:
        for piece in self._ids:
            await asyncio.sleep(0)
            await self._do(piece)
            if self.operation.is_stopped or self._faults >= MOST_FAULTS:
                return

    async def _do(self, piece: str) -> None:
        try:
            self.operation.succeed(await self._work(piece))
        except ApiProblem as problem:
            self.operation.fail(piece, problem)
        except StoreError as error:
            self._faults += 1
            self.operation.fail(piece, store_problem(error))
            return
        self._faults = 0


async def _exchange(store: RequestStore, clock: Clock, operation: Operation) -> None:
    """Keeps the operation's record, and learns whether it is to end; nothing while the store is away."""
    now = clock.now().wall
    try:
        await store.remember(operation.kept(now))
        if await store.recall(_wishes(operation.tenant), operation.operation_id, now - DAY) is not None:
            operation.stop()
    except StoreError:
        return


def _wish(operation: Operation, now: int) -> Remembered:
    return Remembered(_wishes(operation.tenant), operation.operation_id, operation.digest, b"{}", now)


def _wishes(tenant: str) -> str:
    return f"{scope_of(tenant)}/cancel"
