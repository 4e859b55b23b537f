"""A process of its own that writes turns until it is killed or its disk is full, or holds a lock; prints."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scheduler_service.domain.moments import Due
from scheduler_service.persistence.job_store.database import GROUP_BYTES, LARGE_BYTES
from scheduler_service.persistence.job_store.state_store import ServerStateStore
from scheduler_service.persistence.sqlite.folder_lock import FolderLock
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreError, StoreUncertain
from scheduler_service.ports.state import Commit, OpenStore
from tests.fault_points import EachPoint
from tests.forked import Forked
from tests.unit.persistence.samples import batch, commit, delivery

GROUPED = ("a", "b", "c")
"""Jobs whose turns are written together: their records are one row."""
ROOT = Path(__file__).resolve().parents[3]


def start(*arguments: object) -> "subprocess.Popen[str]":
    """This module as a process of its own."""
    command = [sys.executable, "-m", "tests.unit.persistence.crashing", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def fork(*arguments: object) -> Forked:
    """The same from one that has loaded everything, which costs a tenth."""
    command = ["-m", "tests.unit.persistence.crashing", *map(str, arguments)]
    return Forked(command, cwd=ROOT, environ=os.environ)


class Killer(EachPoint):
    """Kills this process at the n-th passage of a point, counted from 1; 0: never."""

    def end(self) -> None:
        """Ends this process."""
        os.kill(os.getpid(), signal.SIGKILL)

    def __init__(self, passage: int) -> None:
        self._left = passage

    def at(self, place: str) -> None:
        self._left -= 1
        if self._left == 0:
            self.end()


async def open_at(place: str, passage: int) -> OpenStore:
    """The store in a folder, or in the database of an address."""
    if "://" in place:
        return await ServerStateStore.open(url=place, faults=Killer(passage))
    return await SqliteStateStore.open(folder=Path(place), faults=Killer(passage))


async def write_turns(place: str, passage: int, turns: int) -> None:
    """One turn after the other; a line with the sequence when it is durable, or with why it is not."""
    store = await open_at(place, passage)
    print("open", flush=True)
    for number in range(turns):
        turn = commit(
            expected=number,
            due=Due(wall=number),
            definition=b"{}",
            revision=number + 1,
            batch=batch(number + 1),
            deliveries=(delivery(number + 1),),
        )
        try:
            await _write(store, turn)
        except StoreError as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            return
        print(number + 1, flush=True)


async def _write(store: OpenStore, turn: Commit) -> None:
    """Commits `turn`; where it is not known whether it is durable, looks, as a host does."""
    try:
        await store.commit(turn)
    except StoreUncertain:
        stored = await store.load(turn.entry.job_id)
        if (0 if stored is None else stored.sequence) == turn.expected:
            await store.commit(turn)


async def write_large(place: str, passage: int, jobs: int) -> None:
    """Jobs at one moment, each with more than half a group; a line with the number of one that is durable."""
    store = await open_at(place, passage)
    print("open", flush=True)

    async def write(number: int) -> None:
        await store.commit(commit(f"job-{number}", document=b"x" * (GROUP_BYTES // 2 + 1)))
        print(number, flush=True)

    await asyncio.gather(*map(write, range(1, jobs + 1)))


def changing_state(number: int) -> bytes:
    """The state after the turn `number` of `write_changing`: small, small, large, small, large, large."""
    return bytes([96 + number]) * (10 * LARGE_BYTES if number in (3, 5, 6) else 10)


async def write_changing(place: str, passage: int, turns: int) -> None:
    """One turn after the other, whose states grow and shrink; prints as `write_turns`."""
    store = await open_at(place, passage)
    print("open", flush=True)
    for number in range(1, turns + 1):
        first: dict[str, Any] = {"definition": b"{}"} if number == 1 else {}
        state = changing_state(number)
        await store.commit(commit(expected=number - 1, document=state, batch=batch(number), **first))
        print(number, flush=True)


async def write_groups(place: str, passage: int) -> None:
    """Two groups of turns of `GROUPED`, after a look at what is there; prints that, and what is durable.

    The history has what was there, the first group, and one of the second.
    """
    store = await open_at(place, passage)
    stored = [await store.load(job_id) for job_id in GROUPED]
    untold = [(one.uid, one.sequence) for one in await store.unwritten(("", 0), 500)]
    sequences = [0 if one is None else one.sequence for one in stored]
    print(json.dumps({"sequences": sequences, "untold": untold}), flush=True)
    for number in (sequences[0] + 1, sequences[0] + 2):
        first: dict[str, Any] = {"definition": b"{}"} if number == 1 else {}
        turns = [
            commit(job_id, expected=number - 1, batch=batch(number, uid=job_id, job_id=job_id), **first)
            for job_id in GROUPED
        ]
        assert not any(await store.commit_all(turns))
        print(number, flush=True)
    await store.written([*untold, *((job_id, sequences[0] + 1) for job_id in GROUPED)])
    await store.written([(GROUPED[0], sequences[0] + 2)])
    await store.close()


async def fill_disk(folder: Path) -> None:
    """The log may not grow any more, then it may again; a line with what each write came to."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit(commit("before"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((folder / "state.db-wal").stat().st_size + 100, hard))
    print(await _come_to(store, "full"), flush=True)
    print(await store.load("full"), flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    print(await _come_to(store, "after"), flush=True)
    await store.close()


async def _come_to(store: SqliteStateStore, job_id: str) -> str:
    try:
        await store.commit(commit(job_id, document=b"x" * 50_000))
    except StoreError as error:
        return type(error).__name__
    return "written"


def hold_worker(folder: Path, worker: int) -> None:
    """Has the lock of a worker process until it is killed."""
    lock = FolderLock.claim_worker(folder, worker)
    print("held", flush=True)
    signal.pause()
    lock.release()


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        asyncio.run(fill_disk(Path(sys.argv[2])))
    elif sys.argv[1] == "hold":
        hold_worker(Path(sys.argv[2]), int(sys.argv[3]))
    elif sys.argv[1] == "large":
        asyncio.run(write_large(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    elif sys.argv[1] == "groups":
        asyncio.run(write_groups(sys.argv[2], int(sys.argv[3])))
    elif sys.argv[1] == "changing":
        asyncio.run(write_changing(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    else:
        asyncio.run(write_turns(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))


def answered(lines: Sequence[str]) -> int:
    """The last turn that was answered as durable."""
    return max((int(line) for line in lines if line.strip().isdigit()), default=0)
