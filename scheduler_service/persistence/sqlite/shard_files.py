"""The shards of a data folder: how many there are, and which file each of them is.

Shard 0 is `state.db`, shard K is `state-K.db`. The table `meta` of `state.db` has the number of shards under
`shares`; without that key it is one.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from scheduler_service.persistence.sqlite.database import open_reading, translated
from scheduler_service.persistence.sqlite.schema import read_version
from scheduler_service.ports.errors import StoreDamaged, StoreRefused

RESHARDING = 0
"""In place of the number while a resharding is under way: jobs may be in any file."""

_SHARD = re.compile(r"state-([1-9][0-9]*)\.db")


def state_file(folder: Path, shard: int) -> Path:
    """The file of the jobs of `shard`."""
    return folder / ("state.db" if shard == 0 else f"state-{shard}.db")


def find_shards(folder: Path) -> list[int]:
    """The shards from 1 that have a file, in order."""
    found = (_SHARD.fullmatch(place.name) for place in folder.iterdir())
    return sorted(int(match[1]) for match in found if match is not None)


def count_shards(folder: Path) -> int:
    """Into how many shards `folder` is divided, or RESHARDING; reads one row, changes nothing.

    Raises StoreRefused where `state.db` is damaged or too new.
    """
    place = str(state_file(folder, 0))
    if not Path(place).is_file():  # opening it would make it
        return 1
    with translated(place), closing(open_reading(place)) as connection:
        return read_shards(connection) if read_version(connection, place=place) else 1


def read_shards(connection: sqlite3.Connection) -> int:
    """The same over an open `state.db`."""
    rows = connection.execute("SELECT value FROM meta WHERE key = 'shares'").fetchall()
    return int(rows[0][0]) if rows else 1


def write_shards(connection: sqlite3.Connection, shards: int) -> None:
    """Writes the number, in the transaction that is open."""
    connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('shares', ?)", (shards,))


def check_shards(connection: sqlite3.Connection, folder: Path, shards: int) -> None:
    """Raises StoreRefused where `folder` is not divided into `shards`: some of its jobs would be missed."""
    kept = read_shards(connection)
    if kept == RESHARDING:
        raise StoreRefused(
            f"The data folder {folder} is being divided into another number of shards, which has not ended. "
            "Start the service: it continues."
        )
    if kept != shards:
        raise StoreRefused(
            f"The data folder {folder} is divided into {kept} shards, not {shards}: its jobs are in "
            f"{kept} files. Start the service, which divides it by its number of workers."
        )


def check_files(folder: Path, shards: int) -> None:
    """Raises StoreDamaged where a file of the `shards` is missing: its jobs would be lost silently."""
    missing = [name for name in name_files(folder, shards)[1:] if not (folder / name).is_file()]
    if missing:
        raise StoreDamaged(
            f"The data folder {folder} is divided into {shards} shards, and {', '.join(missing)} is missing. "
            "Put the file back, or copies of all files of the folder that were made together."
        )


def name_files(folder: Path, shards: int) -> list[str]:
    """The names of the files that hold the jobs of a folder of so many shards, `state.db` first."""
    return [state_file(folder, shard).name for shard in range(max(shards, 1))]
