"""Writes the history in a thread of its own: no turn waits for it."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import TypeVar

import sqlalchemy as sa

from scheduler_service.pacing.interpreter import short_turns
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.record_buffer import Load, save_good_rows
from scheduler_service.persistence.history.row_merging import (
    Repetition,
    Rows,
    WriteExecutions,
    coalesce,
    dismiss_lost,
    insert_rows,
    mark_dropped,
    write_singly,
    write_together,
)
from scheduler_service.persistence.sql.dialect import LONG_ANSWER_SECONDS, Dialect
from scheduler_service.ports.errors import StoreUnavailable, store_closed
from scheduler_service.ports.history import Batch
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.metric_list import Sample

Confirm = Callable[[Sequence[tuple[str, int]]], None]
T = TypeVar("T")
Work = Callable[[sa.Connection], T]
HISTORY = "history"
FLUSH_INTERVAL_SECONDS = 0.1
# A load of BUSY_BATCHES, and the one after it, is gathered BUSY_INTERVALS times longer: more of what begins
# and ends an execution becomes one row, and the event loop has the interpreter to itself meanwhile.
BUSY_BATCHES = 200
BUSY_INTERVALS = 4
PAUSES_SECONDS = (0.1, 0.3, 1.0, 2.0)
# Of these pauses, what remains where a reader asks meanwhile.
SHORTEST_PAUSE_SECONDS = 1.0
# A load of this size is written at once: waiting would merge little more.
FULL_BATCHES = 8_000
BEHIND_BYTES = 12 << 20
"""In memory they take twice as much; it is about what the thread writes in two seconds."""
# So often a close tries to write before it leaves the rest to the store's `unwritten`.
CLOSING_TRIES = 2


def flush_interval_after(batches: int, seconds: float) -> float:
    """For how many seconds a load is gathered after one of `batches`; `seconds` where there was little."""
    return seconds if batches < BUSY_BATCHES else seconds * BUSY_INTERVALS


class HistoryWriter:
    """ports.History in a thread. Records are visible after about 150 ms, or by `flush`.

    Under load they are after 500 ms, those of an execution that has not ended after a second.

    `on_written(keys)` gets the (uid, sequence) of durable batches once they are committed, `on_trouble(text)`
    each failure to write, and None when it is over; both are called on the writer's thread and must not
    raise. What could not be written is kept and tried again with growing pauses; beyond `pending_bytes` the
    detail of batches that are not durable is dropped, and their executions are marked so. A record that no
    database can store is changed or left out, and reported to `on_changed`. Executions that end are counted
    by day, those of `system_jobs` not in the sum over all jobs.
    """

    def __init__(
        self,
        *,
        database: HistoryDatabase,
        on_written: Confirm,
        on_trouble: Callable[[str | None], None],
        on_changed: Callable[[str], None] = lambda text: None,
        pending_bytes: int = 64 << 20,
        flush_seconds: float = FLUSH_INTERVAL_SECONDS,
        pauses_seconds: Sequence[float] = PAUSES_SECONDS,
        system_jobs: frozenset[str] = frozenset(),
    ) -> None:
        self._database = database
        self._system_jobs = system_jobs
        self._on_written = on_written
        self._on_trouble = on_trouble
        self._on_changed = on_changed
        self._limit = pending_bytes
        self._flush_seconds = flush_seconds
        self._pauses = pauses_seconds
        self._lock = threading.Lock()  # the lock of `_changed`, taken without a Python call
        self._changed = threading.Condition(self._lock)
        self._load = Load()
        self._writing_bytes = 0
        self._written = 0
        self._last_batches = 0
        self._failures = 0
        self._errors = 0
        self._has_failed_work = False
        self._flush_requested = False
        self._closing = False
        self._waiters: list[tuple[int, Future[None]]] = []
        self._closers: list[Future[None]] = []
        self._has_ended = False
        self._work: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name="history-writer", daemon=True)
        self._thread.start()

    def append(self, batch: Batch, *, durable: bool) -> None:
        """Puts a turn's records into a queue. After `close` it raises StoreUnavailable, but for durable ones:
        what they tell is done, and the next start finds them in the store.
        """
        with self._lock:
            if self._closing:
                if not durable:
                    self._refuse_when_closed()
                return
            load = self._load
            load.add(batch, durable=durable, limit=self._limit - self._writing_bytes)
            if len(load.batches) in (1, FULL_BATCHES):
                self._changed.notify()

    @property
    def waiting(self) -> tuple[int, int]:
        """How many batches are to be written, and about how many bytes they have."""
        with self._lock:
            return len(self._load.batches), self._load.weight + self._writing_bytes

    def is_behind(self) -> bool:
        """Whether more than `BEHIND_BYTES` wait, while the database can be written."""
        return self._load.weight + self._writing_bytes > BEHIND_BYTES and not self._failures

    async def flush(self) -> None:
        """Returns when everything appended so far is written; at once where nothing waits to be written.

        Callers at the same time share one write. It is made at once, but under load no earlier than without
        them: readers cost the writer nothing then. Raises StoreUnavailable when a try to write it fails
        meanwhile; it is kept and tried again.
        """
        waiter: Future[None] = Future()
        with self._changed:
            if self._load.ticket <= self._written:
                return
            self._refuse_when_closed()
            self._waiters.append((self._load.ticket, waiter))
            self._flush_requested = True
            self._changed.notify()
        with short_turns():
            await asyncio.wrap_future(waiter)

    async def dismiss_lost(self, name: str, holders: Container[str], now: int) -> bool:
        """As `ports.history.History`: in a transaction of its own, after what was appended so far."""
        await self.flush()
        return await self.perform(lambda connection: dismiss_lost(connection, name, holders, now))

    async def perform(self, work: Work[T]) -> T:
        """Runs `work` in a transaction of its own on the writer's thread; for clean-up in small batches.

        Raises StoreUnavailable; nothing was changed then.
        """
        done: Future[T] = Future()
        with self._changed:
            self._refuse_when_closed()
            self._work.append(partial(self._run_one, work, done))
            self._changed.notify()
        return await asyncio.wrap_future(done)

    def samples(self) -> Iterator[Sample]:
        """How much waits to be written, and whether the last write failed, be it one of `perform`."""
        batches, weight = self.waiting
        yield Sample(metric_list.HISTORY_QUEUE.name, (), batches)
        yield Sample(metric_list.HISTORY_BYTES.name, (), weight)
        yield Sample(metric_list.STORE_ERRORS.name, (HISTORY,), self._errors)
        yield Sample(
            metric_list.STORE_UP.name, (HISTORY,), int(not (self._failures or self._has_failed_work))
        )

    @property
    def dialect(self) -> Dialect:
        """That of the database, for the steps of `perform`."""
        return self._database.dialect

    async def close(self) -> None:
        """Writes what was appended, then ends the thread; the database stays open.

        Raises StoreUnavailable where that failed: durable batches are still in the store's `unwritten`.
        A close that is cancelled because the database hangs leaves the thread to itself: it does not keep the
        process from ending.
        """
        ended: Future[None] = Future()
        with self._changed:
            self._closing = True
            self._failures = min(self._failures, CLOSING_TRIES - 1)
            self._closers.append(ended)
            if self._has_ended:
                self._tell_closers()
            self._changed.notify()
        await asyncio.wrap_future(ended)
        self._thread.join()
        if self._load.batches:
            raise StoreUnavailable(f"{len(self._load.batches)} batches of the history could not be written")

    def _refuse_when_closed(self) -> None:
        if self._closing:
            raise store_closed("the history takes nothing more")

    def _run(self) -> None:
        while self._await_work():
            self._run_work()
            self._write_load()
        self._settle_waiters(store_closed("the history takes nothing more"))
        self._run_work()
        with self._changed:
            self._has_ended = True
            self._tell_closers()

    def _tell_closers(self) -> None:
        for ended in self._closers:
            with contextlib.suppress(InvalidStateError):
                ended.set_result(None)
        self._closers.clear()

    def _await_work(self) -> bool:
        """Waits for work, or a load that is due; False: closing, and nothing is left that can be done."""
        with self._changed:
            if self._failures:
                self._await_pause()
            self._await_load()
            if self._load.batches and not self._failures:
                self._gather_load()
            self._flush_requested = False
            if not self._closing:
                return True
            return bool(self._load.batches or self._work) and self._failures < CLOSING_TRIES

    def _await_pause(self) -> None:
        """The pause after a failure; a flush ends it, but does not make it shorter than a second."""
        pause = self._pauses[min(self._failures, len(self._pauses)) - 1]
        least = min(pause, SHORTEST_PAUSE_SECONDS)
        if not self._changed.wait_for(lambda: self._work or self._closing, timeout=least):
            self._changed.wait_for(
                lambda: self._flush_requested or self._work or self._closing, timeout=pause - least
            )

    def _await_load(self) -> None:
        """Waits for something to do. A time without any is the end of the load that there was."""
        began = time.monotonic()
        self._changed.wait_for(lambda: self._load.batches or self._work or self._closing)
        if time.monotonic() - began > flush_interval_after(self._last_batches, self._flush_seconds):
            self._last_batches = 0

    def _gather_load(self) -> None:
        """Waits for more of the load: for longer after much, and as soon as it turns out to be much itself.

        Otherwise the first load of a burst would be written in pieces. A reader ends it: under load not
        before the usual interval, or many readers would have each execution written twice.
        """
        is_busy = self._last_batches >= BUSY_BATCHES
        if self._changed.wait_for(lambda: self._is_due(is_asked=not is_busy), timeout=self._flush_seconds):
            return
        interval = flush_interval_after(max(self._last_batches, len(self._load.batches)), self._flush_seconds)
        self._changed.wait_for(lambda: self._is_due(is_asked=True), timeout=interval - self._flush_seconds)

    def _is_due(self, *, is_asked: bool) -> bool:
        is_asked = is_asked and self._flush_requested
        return is_asked or self._closing or len(self._load.batches) >= FULL_BATCHES

    def _write_load(self) -> None:
        load = self._take_load()
        if not load.batches:
            return
        try:
            self._write_or_repair(load)
        except StoreUnavailable as error:
            self._keep(load, error)
            return
        self._confirm(load)

    def _take_load(self) -> Load:
        with self._changed:
            load = self._load
            self._last_batches = len(load.batches)
            self._load = load.carry_over_open() if self._may_carry_over() else load.carry_over_nothing()
            self._writing_bytes = load.weight
            return load

    def _may_carry_over(self) -> bool:
        """Whether open executions may wait for their end: under load, unless a reader waits for all."""
        is_busy = self._last_batches >= BUSY_BATCHES
        return is_busy and not (self._waiters or self._failures or self._closing)

    def _write_or_repair(self, load: Load) -> None:
        try:
            self._write(load.batches, load.dropped)
        except StoreUnavailable:
            raise
        except Exception:  # noqa: BLE001 - one bad record must not stop the thread
            for message in save_good_rows(load.batches, lambda batch: self._write([batch], load.dropped)):
                self._on_changed(message)

    def _write(self, batches: Sequence[Batch], dropped: Iterable[tuple[str, int]]) -> None:
        rows = coalesce(batches)
        try:
            self._insert(rows, dropped, write_together)
        except Repetition:
            self._insert(rows, dropped, write_singly)

    def _insert(self, rows: Rows, dropped: Iterable[tuple[str, int]], write: WriteExecutions) -> None:
        dialect, system_jobs = self._database.dialect, self._system_jobs

        def insert(connection: sa.Connection) -> None:
            insert_rows(dialect, connection, rows, write_executions=write, system_jobs=system_jobs)
            mark_dropped(dialect, connection, dropped)

        self._database.write(insert)

    def _keep(self, load: Load, error: StoreUnavailable) -> None:
        with self._changed:
            load.join(self._load)
            self._load = load
            self._writing_bytes = 0
            self._failures += 1
            self._errors += 1
        self._on_trouble(str(error))
        self._settle_waiters(error)

    def _confirm(self, load: Load) -> None:
        with self._changed:
            self._writing_bytes = 0
            self._written = load.complete_to
            recovered, self._failures, self._has_failed_work = self._failures > 0, 0, False
        if load.confirmed:
            self._on_written([(batch.uid, batch.sequence) for batch in load.confirmed])
        if recovered:
            self._on_trouble(None)
        self._settle_waiters(None)

    def _settle_waiters(self, error: StoreUnavailable | None) -> None:
        with self._changed:
            settled = [waiter for waiter in self._waiters if error or waiter[0] <= self._written]
            self._waiters = [] if error else [one for one in self._waiters if one[0] > self._written]
        for _, future in settled:
            with contextlib.suppress(InvalidStateError):
                future.set_result(None) if error is None else future.set_exception(error)

    def _run_work(self) -> None:
        with self._changed:
            work, self._work = self._work, []
        for run_one in work:
            run_one()

    def _do_long(self, function: Work[T], connection: sa.Connection) -> T:
        """A step may walk over all that there is before a server answers."""
        with self._database.dialect.waiting_for(connection, LONG_ANSWER_SECONDS):
            return function(connection)

    def _run_one(self, function: Work[T], done: Future[T]) -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            result = self._database.write(partial(self._do_long, function))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            self._has_failed_work |= isinstance(error, StoreUnavailable)
            done.set_exception(error)
        else:
            self._has_failed_work = False
            done.set_result(result)
