"""Data folders with something in every table, and the contents of their files."""

import shutil
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from scheduler_service.domain.effects import PublishParts
from scheduler_service.domain.leases import Claim
from scheduler_service.domain.moments import Due
from scheduler_service.domain.step_parts import PartEnd, PartName, QueuedPart, QueueOptions
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.queues.queue_tables import queue_parts
from scheduler_service.persistence.sqlite.folder_lock import FolderLock, find_divided
from scheduler_service.persistence.sqlite.schema import MIGRATIONS, upgrade
from scheduler_service.persistence.sqlite.shard_merge import gather
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered
from tests.unit.persistence.samples import commit, delivery

JOBS = tuple(f"job-{number}" for number in range(7))

TABLES = {
    "jobs": "*", "definitions": "*", "remembered": "*", "outbox": "*", "untold": "*",
    "queue_parts": ", ".join(one.name for one in queue_parts.c if one.name != "noted_at"),
    "queue_completions": "lease, digest, at",
}  # fmt: skip
OLD_NAMES = {
    "queue_parts": "parts", "queue_completions": "completions", "outbox": "deliveries", "untold": "unwritten",
}  # fmt: skip
"""What tables were called before the last steps."""
DIVIDED = 9
"""The last format of divided folders."""

Place = tuple[str, tuple[object, ...]]


def homes(shards: int) -> Callable[[str], int]:
    """In which file of a divided folder a job is."""
    return lambda job_id: zlib.crc32(job_id.encode()) % shards


def divide(folder: Path, count: int) -> None:
    """Divides the jobs of a folder among `count` files, as programs before 0.2.0 did."""
    with closing(sqlite3.connect(folder / "state.db", isolation_level=None)) as whole:
        upgrade(whole, place="state.db")
        rows = {table: _named_rows(whole, table) for table in (*TABLES, "marks")}
    for file in folder.glob("state.db*"):
        file.unlink()
    for number in range(count):
        name = f"state-{number}.db" if number else "state.db"
        with closing(sqlite3.connect(folder / name, isolation_level=None)) as connection:
            upgrade(connection, place=name, migrations=MIGRATIONS[:DIVIDED])
            connection.execute("PRAGMA journal_mode = WAL")
            for table in TABLES:
                own = [
                    row
                    for row in rows[table]
                    if homes(count)(owner_of((table, tuple(row.values())))) == number
                ]
                _add_rows(connection, OLD_NAMES.get(table, table), [_as_before(table, row) for row in own])
            if number:
                connection.execute("INSERT INTO meta VALUES ('boot', ?)", (10 * number,))
            else:
                names = {"epoch": "boot", "node_id": "node_id", "clock_skew": "clock_skew"}
                kept = [row for row in rows["marks"] if row["name"] in names]
                meta = [
                    {"key": names[str(row["name"])], "value": row["value"] or row["holder"]} for row in kept
                ]
                _add_rows(connection, "meta", meta)
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('shares', ?)", (count,))


def _named_rows(connection: sqlite3.Connection, table: str) -> list[dict[str, object]]:
    found = connection.execute(f"SELECT * FROM {table} ORDER BY rowid")
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found]


def _as_before(table: str, row: dict[str, object]) -> dict[str, object]:
    if table == "jobs":
        return row | {"document": row["turn_state"], "face": row["claimed_at"]}
    if table == "untold":
        names = ("uid", "job_id", "tenant", "sequence", "at", "records")
        found = dict(zip(names, msgspec.msgpack.decode(row["content"]), strict=True))  # type: ignore[arg-type]
        return found | {"records": msgspec.msgpack.encode(found["records"])}
    return row


def _add_rows(connection: sqlite3.Connection, table: str, rows: list[dict[str, object]]) -> None:
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    text = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    connection.executemany(text, [[row[name] for name in columns] for row in rows])


def gather_all(folder: Path, *, faults: FaultPoints | None = None, rows_at_once: int = 3) -> list[str]:
    """Brings a divided folder together as the service does at its start; the events that it logs."""
    events: list[str] = []
    lock = FolderLock.claim(folder)
    try:
        gather(folder, log=lambda event, **_: events.append(event), faults=faults, rows_at_once=rows_at_once)
    finally:
        lock.release()
    return events


async def fill(folder: Path) -> Path:
    """A folder as a crash left it: rows in all tables."""
    folder.mkdir()
    store = await SqliteStateStore.open(folder=folder / "open")
    await store.save_clock_skew(77)
    for place, job_id in enumerate(JOBS):
        await store.commit(_create(place, job_id))
    await store.remember(Remembered("POST /jobs", "no job's", b"d", b"a", 1_000))
    leases = tuple(f"lease-{place}" for place in range(len(JOBS) - 1))
    for leased in await store.queues.claim(Claim("default", "work", "a", leases, 0)):
        await store.queues.complete(leased.lease, PartEnd(body=b"1"), 1)
    for job_id in JOBS:
        await store.commit(turn(job_id, 1))
    crashed = folder / "crashed"
    copy(folder / "open", crashed)
    await store.close()
    return crashed


def _create(place: int, job_id: str) -> Commit:
    name = PartName(f"uid-{job_id}", 1, 1, 0, 0)
    request = OutboundRequest("POST", "queue://work", ())
    part = QueuedPart(name, "work", 1, request, QueueOptions(), 0, place, job_id, "default")
    return commit(
        job_id,
        definition=job_id.encode(),
        batch=Batch(uid=f"uid-{job_id}", job_id=job_id, tenant="default", sequence=1, at=7, records=()),
        deliveries=(delivery(place, job_id=job_id),),
        remembered=Remembered(f"/jobs/{job_id}", "key", b"digest", b"answer", 1_000, job_id),
        queued=(PublishParts((part,)),),
    )


def turn(job_id: str, over: int) -> Commit:
    """A turn that only moves its job on."""
    batch = Batch(uid=f"uid-{job_id}", job_id=job_id, tenant="default", sequence=over + 1, at=8, records=())
    return commit(
        job_id, expected=over, document=b"turned " + job_id.encode(), due=Due(wall=10), batch=batch,
        execute_number=over,
    )  # fmt: skip


def copy(folder: Path, target: Path) -> None:
    """The files as a crash would leave them now."""
    target.mkdir()
    for file in folder.iterdir():
        if file.name.startswith("state") and not file.name.endswith("-shm"):
            shutil.copy(file, target / file.name)


def contents(folder: Path) -> dict[str, list[Place]]:
    """All rows by file, each with its table."""
    return {
        name: [
            (table, row)
            for table, columns in TABLES.items()
            for row in query(folder / name, f"SELECT {columns} FROM {table}")
        ]
        for name in ("state.db", *(place.name for place in find_divided(folder)))
    }


def query(file: Path, text: str) -> list[tuple[object, ...]]:
    """What the file answers."""
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(text).fetchall()


def owner_of(place: Place) -> str:
    """Whose a row is; "" where it is no job's."""
    table, row = place
    match table:
        case "jobs":
            return str(row[0])
        case "definitions":
            return str(row[2])
        case "untold":
            return str(msgspec.msgpack.decode(row[2])[1])  # type: ignore[arg-type]
        case "remembered":
            return str(row[5])
        case "outbox" | "queue_parts":
            packed = row[1] if table == "outbox" else row[19]
            return str(msgspec.msgpack.decode(packed)["job_id"])  # type: ignore[arg-type]
    return ""


def check_gathered(folder: Path, whole: list[Place]) -> None:
    """Each row of `whole` is there once, equal, in `state.db`; and there is nothing else."""
    found = contents(folder)
    assert list(found) == ["state.db"]
    there, wanted = Counter(found["state.db"]), Counter(whole)
    assert not there - wanted
    assert not wanted - there
    assert query(folder / "state.db", "SELECT value FROM meta WHERE key = 'shares'") == []
