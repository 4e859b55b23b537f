"""Opens the history's writer, whose thread tells the loop what is written and what is wrong."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.history_watch import HistoryWatch

Confirm = Callable[[Sequence[tuple[str, int]]], Awaitable[None]]
"""Takes the keys of batches that the history has (`ports.state.StateStore.written`)."""


def open_writer(
    confirm: Confirm,
    database: HistoryDatabase,
    log: Log,
    own: frozenset[str],
    watch: HistoryWatch | None = None,
) -> HistoryWriter:
    """The history's writer; it calls `confirm` with what is written, and tells `watch` and `log` of trouble.

    All of it on the thread of the loop, for who takes what the log says is there.
    `own` are the jobs that the product makes for itself: they are in no sum over all jobs.
    """
    loop = asyncio.get_running_loop()

    def note(trouble: str | None) -> None:
        if watch is not None:
            watch.note(trouble)
        if trouble is None:
            log("history_written_again")
        else:
            log("history_not_written", error=trouble)

    return HistoryWriter(
        database=database,
        on_written=lambda keys: call_on(loop, lambda: _ignore(confirm(keys))),
        on_trouble=lambda trouble: call_on(loop, note, trouble),
        on_changed=lambda text: call_on(loop, lambda: log("records_changed", error=text)),
        system_jobs=own,
    )


def call_on(loop: asyncio.AbstractEventLoop, work: Callable[..., object], *given: object) -> None:
    """Calls `work` on the loop's thread; not where the loop has ended, since nobody can take it any more."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(work, *given)


def _ignore(writing: Any) -> None:
    """A confirmation that fails is repeated after the next start; a repetition does nothing."""
    asyncio.ensure_future(writing).add_done_callback(lambda done: done.cancelled() or done.exception())
