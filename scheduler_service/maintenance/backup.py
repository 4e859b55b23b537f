"""`punctual db backup` and `db restore`: a copy of the data folder as of one moment, and back."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from scheduler_service import __version__
from scheduler_service.app.data_folder import HISTORY_FILE
from scheduler_service.domain.moments import rfc3339
from scheduler_service.maintenance.folder_formats import check_folder
from scheduler_service.persistence.sql.sqlite import file_of
from scheduler_service.persistence.sqlite.folder_lock import (
    BACKUP_LIST,
    LOCK,
    REPAIRING,
    RESTORING,
    FolderLock,
)
from scheduler_service.persistence.sqlite.snapshot import OnProgress, copy_as_of_now, sync
from scheduler_service.ports.errors import (
    FolderUnusable,
    StoreDamaged,
    StoreLocked,
    StoreRefused,
    StoreTooNew,
)

FORMAT = 1
CHUNK_BYTES = 8 << 20
LONGEST_LIST_BYTES = 1 << 20
_FILE = re.compile(r"state(-[0-9]+)?\.db|history\.db")
_OF_AN_EMPTY_FOLDER = re.compile(r"lock(-[0-9]+)?|lost\+found")


class Backup(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What `backup.json` says. `files`: name → bytes. `made_at`: RFC 3339.

    `digests`: name → SHA-256 in hex; empty where version 0.1.0 made it. No other member is known: a changed
    letter in the name of one would else leave it out.
    """

    format: int
    punctual: str
    made_at: str
    files: dict[str, int]
    digests: dict[str, str] = {}

    @property
    def has_history(self) -> bool:
        """Whether the history is among them; else it was in a database server."""
        return HISTORY_FILE in self.files


def back_up(folder: Path, history: str, into: Path, *, now: int, on_progress: OnProgress) -> Backup:
    """Copies the data folder, which a service may be using, to the folder `into`; `now` in ms.

    `history` is its address; one in a database server is not copied. Blocks. Raises StoreError; then `into`
    is empty.
    """
    others = {} if (place := file_of(history)) is None else {HISTORY_FILE: place}
    for place in others.values():
        if not place.is_file():
            raise FolderUnusable(f"The history {place} is missing: no service has worked on {folder}.")
    if (folder / REPAIRING).exists():
        raise FolderUnusable(
            f"A repair of the data folder {folder} has not ended. Run 'punctual db repair' again: it goes on."
        )
    _make_empty(into)
    try:
        names = copy_as_of_now(folder, others=others, into=into, on_progress=on_progress)
        sizes = {name: (into / name).stat().st_size for name in names}
        digests = {name: _digest(into / name, sizes[name], on_progress) for name in names}
        backup = Backup(FORMAT, __version__, rfc3339(now), sizes, digests)
        _write_list(into, backup)
    except BaseException as error:
        _remove(into.iterdir())
        if isinstance(error, OSError):
            raise _refusal(into, error) from error
        raise
    return backup


def restore(
    source: Path,
    folder: Path,
    history: str,
    *,
    on_progress: OnProgress,
    complete: Callable[[], None] = lambda: None,
) -> Backup:
    """Copies the backup `source` to the data folder, which is empty or does not exist.

    `complete` changes what was copied before a service can start on it; what it raises undoes the restore.
    Blocks. Raises StoreError; then the folder holds nothing new. Where the process dies meanwhile, no service
    starts on the folder.
    """
    backup = _read_list(source)
    places = _find_places(backup, folder, history)
    with _claimed(folder):
        _check_empty(folder, places.values())
        mark = folder / RESTORING
        try:
            mark.touch(0o600)
            sync(folder)
            for name, size in backup.files.items():
                digest = _copy(source / name, places[name], size, on_progress)
                _check_digest(source / name, digest, backup.digests.get(name, digest))
            check_folder(folder, history)  # refuses formats of a newer version
            complete()
            for parent in {place.parent for place in places.values()}:
                sync(parent)
            mark.unlink()
            sync(folder)
        except BaseException as error:
            leftovers = (Path(f"{place}{end}") for place in places.values() for end in ("", "-wal", "-shm"))
            _remove([*leftovers, mark])
            if isinstance(error, OSError):
                raise _refusal(folder, error) from error
            raise
    return backup


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Holds the lock of the folder. Where it is refused, or fails, what was made for it is removed again."""
    made = [place for place in (folder / LOCK, folder, *folder.parents) if not place.exists()]
    try:
        lock = FolderLock.claim(folder)
    except StoreLocked:  # the lock is another's
        raise
    except BaseException:
        _remove_made(made)
        raise
    try:
        yield
    except BaseException:
        _remove_made(made)
        raise
    finally:
        lock.release()


def _remove_made(made: Sequence[Path]) -> None:
    """The lock and the folders that were made for what was refused; a folder with something in it stays."""
    for place in made:
        with suppress(OSError):
            place.rmdir() if place.is_dir() else place.unlink()


def _find_places(backup: Backup, folder: Path, history: str) -> dict[str, Path]:
    """Where each file of the backup belongs. Raises StoreRefused where settings put the history elsewhere."""
    place = file_of(history)
    if backup.has_history and place is None:
        raise StoreRefused(
            "The backup has the history in a file, and database.url names a database server. "
            "Restore without database.url."
        )
    if not backup.has_history and place is not None:
        raise StoreRefused(
            "The backup has no history: it was in a database server. Restore its own dump there, and give "
            "database.url as it was."
        )
    return {name: place if name == HISTORY_FILE and place else folder / name for name in backup.files}


def _check_empty(folder: Path, places: Iterable[Path]) -> None:
    there = [entry.name for entry in folder.iterdir() if not _OF_AN_EMPTY_FOLDER.fullmatch(entry.name)]
    there += [str(place) for place in places if place.parent != folder and place.exists()]
    if there:
        raise StoreRefused(
            f"The data folder {folder} is not empty: it has {', '.join(sorted(there)[:5])}. "
            "Restore into another folder, or move away what is there."
        )


def _make_empty(into: Path) -> None:
    try:
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_empty = not any(into.iterdir())
    except OSError as error:
        raise _refusal(into, error) from error
    if not is_empty:
        raise StoreRefused(
            f"The folder {into} is not empty. Name one that does not exist: each backup has its own."
        )


def _write_list(into: Path, backup: Backup) -> None:
    place = into / BACKUP_LIST
    sync(into)
    place.write_bytes(msgspec.json.format(msgspec.json.encode(backup)) + b"\n")
    sync(place)
    sync(into)


def _read_list(source: Path) -> Backup:
    place = source / BACKUP_LIST
    try:
        if place.exists() and not place.is_file():
            raise StoreDamaged(f"{place} is no file. Use another backup.")
        with place.open("rb") as stream:
            backup = msgspec.json.decode(stream.read(LONGEST_LIST_BYTES), type=Backup)
    except FileNotFoundError as error:
        raise StoreRefused(
            f"{source} is no whole backup: {BACKUP_LIST} is missing. "
            "Name a folder that 'punctual db backup' has made."
        ) from error
    except OSError as error:
        raise _refusal(source, error) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreDamaged(f"{place} cannot be read: {error}. Use another backup.") from error
    if backup.format != FORMAT:
        raise StoreTooNew(
            f"The backup {source} has format {backup.format}, this program knows format {FORMAT}. "
            f"Use Punctual {backup.punctual}."
        )
    for name, size in backup.files.items():
        _check_file(source, name, size)
    return backup


def _check_file(source: Path, name: str, size: int) -> None:
    place = source / name
    if not _FILE.fullmatch(name) or not place.is_file() or place.stat().st_size != size:
        raise StoreDamaged(
            f"{place} is missing, or has not the {size} bytes that {BACKUP_LIST} says. Use another backup."
        )


def _check_digest(place: Path, found: str, expected: str) -> None:
    if found != expected:
        raise StoreDamaged(
            f"{place} is not what was backed up: its SHA-256 is {found}, and {BACKUP_LIST} says {expected}. "
            "Nothing was restored. Use another backup."
        )


def _digest(place: Path, size: int, on_progress: OnProgress) -> str:
    """The SHA-256 of a file."""
    digest, done = hashlib.sha256(), 0
    with place.open("rb") as reading:
        while chunk := reading.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            on_progress(f"{place.name} again", done, size)
    return digest.hexdigest()


def _copy(source: Path, place: Path, size: int, on_progress: OnProgress) -> str:
    """Returns the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with source.open("rb") as reading, os.fdopen(descriptor, "wb") as writing:
        done = 0
        while chunk := reading.read(CHUNK_BYTES):
            writing.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            on_progress(place.name, done, size)
        writing.flush()
        os.fsync(writing.fileno())
    return digest.hexdigest()


def _remove(places: Iterable[Path]) -> None:
    for place in places:
        place.unlink(missing_ok=True)


def _refusal(folder: Path, error: OSError) -> FolderUnusable:
    return FolderUnusable(
        f"The folder {folder} cannot be used: {error.strerror}. "
        "See that the disk has room and that this user may read and write it."
    )
