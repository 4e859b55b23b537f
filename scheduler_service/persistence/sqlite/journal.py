"""The table `journal`, in which programs before 0.2.0 left what other tables lack: taken over at a start.

A page has records that the history has not confirmed; in version 0.1.0 also jobs after their turns, ahead of
their rows. Nothing writes pages any more.
"""

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from msgspec.structs import astuple

from scheduler_service.domain.moments import Due
from scheduler_service.persistence.common.packing import PackedBatch
from scheduler_service.persistence.sqlite.folder import write_private
from scheduler_service.persistence.sqlite.row_versions import RowVersion, find_row_versions, write_jobs
from scheduler_service.persistence.sqlite.rows import batch_row
from scheduler_service.persistence.sqlite.statements import PUT_BATCHES, put_rows
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.state import StoredJob


class ListedEntry(CatalogueEntry, frozen=True, array_like=True, gc=False):
    """An entry as an array."""


class JournalPage(msgspec.Struct, frozen=True, array_like=True):
    """Turns (entry, sequence, document, due wall, due steady) and records of one group of commits."""

    turns: list[tuple[ListedEntry, int, bytes, int | None, int | None]]
    batches: list[PackedBatch]

    def jobs(self) -> list[StoredJob]:
        """The jobs after their turns."""
        return [
            StoredJob(CatalogueEntry(*astuple(entry)), sequence, document, Due(wall=wall, steady=steady))
            for entry, sequence, document, wall, steady in self.turns
        ]


OnDamagedPage = Callable[[Path], None]
"""Is told the file that has a page that cannot be read, before the page is removed.

Any job may have lost its latest turn, which it repeats, and the history some records.
"""

_read_page = msgspec.msgpack.Decoder(JournalPage).decode


def take_over(
    connection: sqlite3.Connection, *, place: Path, on_damaged_page: OnDamagedPage | None = None
) -> None:
    """Moves all pages of the file at `place` into its tables, in the transaction that is open.

    The history ignores records that it has. A page that cannot be read is put beside the file, durably, and
    `on_damaged_page` is told; None: sqlite3.DatabaseError.
    """
    # One at a time: after a long outage of the history they may not fit into memory together.
    for number, content in connection.execute("SELECT page, content FROM journal ORDER BY page"):
        try:
            page = _read_page(content)
        except msgspec.DecodeError as error:
            if on_damaged_page is None:
                damaged = sqlite3.DatabaseError(f"page {number} of the journal cannot be read: {error}")
                damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise damaged from error
            copy = place.with_name(f"{place.name}-page-{number}.damaged")
            write_private(copy, content)
            on_damaged_page(copy)
            continue
        put_rows(connection, PUT_BATCHES, [batch_row(batch) for batch in page.batches])
        _write_later(connection, page.jobs())
    connection.execute("DELETE FROM journal")


def _write_later(connection: sqlite3.Connection, jobs: Iterable[StoredJob]) -> None:
    """Each of the `jobs` whose row has an earlier turn of the same life."""
    latest = {job.entry.job_id: job for job in jobs}
    found = find_row_versions(connection, latest.keys())
    later = [job for job_id, job in latest.items() if _is_later(job, found.get(job_id))]
    write_jobs(connection, [(job, found[job.entry.job_id].face) for job in later])


def _is_later(job: StoredJob, version: RowVersion | None) -> bool:
    if version is None or version.destroyed:
        return False
    return version.uid == job.entry.uid and version.sequence < job.sequence
