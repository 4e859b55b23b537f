"""The tables `journal` and `unwritten`, which programs before 0.2.0 wrote: taken over at a start.

A page of the journal has records that the history has not confirmed; in version 0.1.0 also jobs after their
turns, ahead of their rows. `unwritten` has records, too. Nothing writes them any more.
"""

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from msgspec.structs import astuple

from scheduler_service.domain.moments import Due
from scheduler_service.persistence.common.packing import PackedBatch, pack
from scheduler_service.persistence.sql.job_tables import ENTRY, entry_row
from scheduler_service.persistence.sqlite.folder import write_private
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

_PUT_RECORDS = "INSERT OR REPLACE INTO untold (uid, sequence, content, node, boot) VALUES (?, ?, ?, '', '')"
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
        rows = ((batch.uid, batch.sequence, pack(batch)) for batch in page.batches)
        connection.executemany(_PUT_RECORDS, rows)
        _write_later(connection, page.jobs())
    connection.execute("DELETE FROM journal")
    for row in connection.execute("SELECT uid, job_id, tenant, sequence, at, records FROM unwritten"):
        content = pack((*row[:-1], msgspec.Raw(row[-1])))
        connection.execute(_PUT_RECORDS, (row[0], row[3], content))
    connection.execute("DELETE FROM unwritten")


def _write_later(connection: sqlite3.Connection, jobs: Iterable[StoredJob]) -> None:
    """Each of the `jobs` whose row has an earlier turn of the same life."""
    for job in jobs:
        names = (column.name for column in ENTRY)
        values = dict(zip(names, entry_row(job.entry), strict=True)) | {
            "sequence": job.sequence,
            "due_wall": job.due.wall,
            "due_steady": job.due.steady,
            "turn_state": job.document,
        }
        changes = ", ".join(f"{name} = :{name}" for name in values)
        is_earlier = "job_id = :job_id AND uid = :uid AND sequence < :sequence AND turn_state IS NOT NULL"
        connection.execute(f"UPDATE jobs SET {changes} WHERE {is_earlier}", values)  # noqa: S608 - our own
