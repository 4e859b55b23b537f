"""Data folders with something in every table, and the contents of their files."""

import shutil
import sqlite3
import threading
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from scheduler_service.domain.effects import PublishParts
from scheduler_service.domain.leases import Claim
from scheduler_service.domain.moments import Due
from scheduler_service.domain.parts import PartEnd, PartName, QueuedPart, QueueOptions
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.sqlite.folder import FolderLock, find_shards, state_file
from scheduler_service.persistence.sqlite.resharding import ReshardPlan, reshard
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered
from tests.unit.persistence.samples import commit, delivery

JOBS = tuple(f"job-{number}" for number in range(7))

TABLES = {
    "jobs": "*", "definitions": "*", "remembered": "*", "deliveries": "*", "parts": "*", "unwritten": "*",
    "completions": "lease, digest, at",
}  # fmt: skip

Place = tuple[str, tuple[object, ...]]


def homes(shards: int) -> Callable[[str], int]:
    """Which shard a job lives in."""
    return lambda job_id: zlib.crc32(job_id.encode()) % shards


def split(
    folder: Path,
    shards: int,
    *,
    faults: FaultPoints | None = None,
    batch_size: int = 3,
    lock_wait: float = 10.0,
    begun: threading.Event | None = None,
) -> list[str]:
    """Reshards as the service does at its start. Returns the logged events; sets `begun` at the first."""
    events: list[str] = []

    def log(event: str, **_: object) -> None:
        events.append(event)
        if begun is not None:
            begun.set()

    lock = FolderLock.claim(folder)
    try:
        plan = ReshardPlan(
            folder=folder, shards=shards, shard_of=homes(shards), durability="full", lock_wait=lock_wait,
            log=log, batch_size=batch_size, faults=faults,
        )  # fmt: skip
        reshard(plan)
    finally:
        lock.release()
    return events


async def fill(folder: Path) -> Path:
    """A folder as a crash left it: rows in all tables, and turns that are in the journal alone."""
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
    """A turn that only moves its job on: it goes to the journal."""
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
        for name in (state_file(folder, shard).name for shard in (0, *find_shards(folder)))
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
        case "definitions" | "unwritten":
            return str(row[2])
        case "remembered":
            return str(row[5])
        case "deliveries" | "parts":
            packed = row[1] if table == "deliveries" else row[19]
            return str(msgspec.msgpack.decode(packed)["job_id"])  # type: ignore[arg-type]
    return ""


def check_division(folder: Path, shards: int, whole: list[Place]) -> None:
    """Each row of `whole` is there once, equal, in the file of its job's shard; and there is nothing else."""
    found = contents(folder)
    assert list(found) == [state_file(folder, shard).name for shard in range(shards)]
    there, wanted = Counter(place for name in found for place in found[name]), Counter(whole)
    assert not there - wanted
    assert not wanted - there
    for shard, name in enumerate(found):
        owners = {owner_of(place) for place in found[name]} - {""}
        assert {homes(shards)(owner) for owner in owners} <= {shard}
        assert query(folder / name, "SELECT count(*) FROM journal") == [(0,)]
    assert query(folder / "state.db", "SELECT value FROM meta WHERE key = 'shares'") == [(shards,)]
