"""A page of the journal: the records of one group of commits, and what is left of a page that was damaged."""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import astuple, replace

from scheduler_service.domain.moments import Due
from scheduler_service.persistence.common.writes import PackedBatch
from scheduler_service.persistence.sqlite.folder import write_private
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import StoredJob


class ListedEntry(CatalogueEntry, frozen=True, array_like=True, gc=False):
    """An entry as an array: the names of its members would be half of a page."""


PackedTurn = tuple[ListedEntry, int, bytes, int | None, int | None]
"""(entry, sequence, document, due wall, due steady)."""


class Page(msgspec.Struct, frozen=True, array_like=True):
    """Records for the history; in version 0.1.0 also jobs after their turns, ahead of their rows."""

    turns: list[PackedTurn]
    batches: list[PackedBatch]

    def jobs(self) -> list[StoredJob]:
        """The jobs after their turns."""
        return [
            StoredJob(CatalogueEntry(*astuple(entry)), sequence, document, Due(wall=wall, steady=steady))
            for entry, sequence, document, wall, steady in self.turns
        ]


class LostTurns(msgspec.Struct, frozen=True):
    """What of a damaged page cannot be read: the turns of `job_ids` (as far as known), and some `records`.

    These jobs go on from their turn before: calls that were answered since are made again. `is_whole`:
    nothing of the page can be read, so any job may be among them. `copy` is the file that has the page now.
    """

    copy: Path
    job_ids: tuple[str, ...] = ()
    records: int = 0
    is_whole: bool = False


class OnDamage(msgspec.Struct, frozen=True):
    """How a damaged page is read around: whether the document of a turn `is_readable`, and who is told.

    `on_lost` takes what was lost; it is called before the damaged page is removed.
    """

    is_readable: Callable[[bytes], bool]
    on_lost: Callable[[LostTurns], None]


UNKNOWN = "?"
"""In place of a job id that cannot be read."""

_encode = msgspec.msgpack.Encoder().encode
_DECODER = msgspec.msgpack.Decoder(Page)
_PARTS = msgspec.msgpack.Decoder(tuple[list[msgspec.Raw], list[msgspec.Raw]])
_TURN = msgspec.msgpack.Decoder(PackedTurn)
_BATCH = msgspec.msgpack.Decoder(PackedBatch)
_ANY = msgspec.msgpack.Decoder()


def encode_page(batches: Iterable[Batch]) -> bytes:
    """A page as the file keeps it."""
    return _encode(((), [astuple(batch) for batch in batches]))


def read_intact_page(number: int, content: bytes) -> Page:
    """The page. Raises sqlite3.DatabaseError, as for a damaged file, where it cannot be read."""
    try:
        return _DECODER.decode(content)
    except msgspec.DecodeError as error:
        damaged = sqlite3.DatabaseError(f"page {number} of the journal cannot be read: {error}")
        damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damaged from error


class Salvage:
    """Reads pages of the file at `place`: of a damaged one what can be read."""

    def __init__(self, *, place: Path, on_damage: OnDamage) -> None:
        self._place = place
        self._on_damage = on_damage

    def read(self, number: int, content: bytes) -> Page:
        """The page, or what is left of it; then its content is beside the file, durably. Raises OSError."""
        copy = self._place.with_name(f"{self._place.name}-page-{number}.damaged")
        try:
            page, lost = read_intact_page(number, content), LostTurns(copy)
        except sqlite3.DatabaseError:
            page, lost = _read_parts(content, copy)
        is_readable = self._on_damage.is_readable
        unread = {entry.job_id for entry, _, document, *_ in page.turns if not is_readable(document)}
        if unread:
            page = Page([turn for turn in page.turns if is_readable(turn[2])], page.batches)
            lost = replace(lost, job_ids=tuple(sorted({*lost.job_ids, *unread})))
        if lost.job_ids or lost.records or lost.is_whole:
            write_private(copy, content)
            self._on_damage.on_lost(lost)
        return page


def _read_parts(content: bytes, copy: Path) -> tuple[Page, LostTurns]:
    try:
        turns, batches = _PARTS.decode(content)
    except msgspec.DecodeError:
        return Page([], []), LostTurns(copy, is_whole=True)
    page, lost = Page([], []), set[str]()
    for turn in turns:
        try:
            page.turns.append(_TURN.decode(turn))
        except msgspec.DecodeError:
            lost.add(_read_job_id(turn))
    for batch in batches:
        with suppress(msgspec.DecodeError):
            page.batches.append(_BATCH.decode(batch))
    return page, LostTurns(copy, tuple(sorted(lost)), records=len(batches) - len(page.batches))


def _read_job_id(turn: msgspec.Raw) -> str:
    with suppress(msgspec.DecodeError):
        match _ANY.decode(turn):
            case [[str(job_id), *_], *_]:
                return job_id
    return UNKNOWN
