"""The writer tells when nothing can be written, and when it can again; its groups have a bounded size."""

import asyncio
import sqlite3

import pytest
from msgspec.structs import replace

from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.sqlite.commit_group import ConfirmedBatches, Settle, Write
from scheduler_service.persistence.sqlite.files import open_memory
from scheduler_service.persistence.sqlite.writer import CALM_SECONDS, GROUP_BYTES, Writer, divide, weigh
from scheduler_service.ports.errors import StoreConflict, StoreError
from scheduler_service.ports.state import Settlement
from tests.unit.persistence.samples import commit, delivery

pytestmark = pytest.mark.anyio
THIRD = b"x" * (GROUP_BYTES // 3)
LARGE = replace(delivery(1), request=OutboundRequest("POST", "http://t/x", (), 2 * THIRD))


class Disk:
    """A disk that is full while it is told to be, at one point of a transaction; and a clock."""

    def __init__(self, point: FaultPoint) -> None:
        self.point = point
        self.is_full = False
        self.now = 0.0
        self.told: list[str | None] = []

    def before(self, point: str) -> None:
        if self.is_full and point == self.point:
            raise sqlite3.OperationalError("database or disk is full")

    def after(self, point: str) -> None:
        """Nothing is broken there."""

    def open(self) -> Writer:
        """A writer on it."""
        return Writer(
            files=open_memory("full", ""),
            size=10,
            faults=self,
            loop=asyncio.get_running_loop(),
            on_trouble=self.told.append,
            clock=lambda: self.now,
        )


@pytest.mark.parametrize("point", [FaultPoint.BEGIN, FaultPoint.WRITE, FaultPoint.COMMIT])
async def test_trouble_is_told_and_its_end(point: FaultPoint) -> None:
    """Each group that fails; the end when writing has not failed for a second."""
    disk = Disk(point)
    writer = disk.open()
    await writer.put(commit("a"))
    disk.is_full = True
    for _ in range(2):
        with pytest.raises(StoreError):
            await writer.put(commit("b"))
    disk.is_full = False
    await writer.put(commit("c"))
    assert [text is not None and "disk is full" in text for text in disk.told] == [True, True]
    disk.now += CALM_SECONDS
    await writer.put(commit("d"))
    await writer.put(commit("e"))
    assert disk.told[2:] == [None]
    await writer.close()


async def test_the_fault_of_one_write_is_no_trouble_of_the_store() -> None:
    """A conflict is an answer."""
    disk = Disk(FaultPoint.COMMIT)
    writer = disk.open()
    await writer.put(commit("a"))
    with pytest.raises(StoreConflict):
        await writer.put(commit("a"))
    assert disk.told == []
    await writer.close()


def divide_weighed(writes: list[Write]) -> list[list[Write]]:
    """As the thread that has weighed them asks for it."""
    return list(divide(writes, sum(map(weigh, writes))))


def test_what_is_small_is_one_group() -> None:
    """The list as it was given."""
    writes: list[Write] = [commit(f"job-{number}") for number in range(1_000)]
    (group,) = divide_weighed(writes)
    assert group is writes
    assert list(divide_weighed([])) == [[]]


def test_what_is_large_is_several_groups_in_order() -> None:
    """States, definitions and bodies of notifications count; a write is never divided."""
    writes: list[Write] = [
        commit("a", document=THIRD),
        commit("b", definition=THIRD),
        ConfirmedBatches((("u", 1),)),
        commit("c", deliveries=(LARGE,)),
        Settle((Settlement(LARGE, done=False),)),
        commit("d", document=9 * THIRD),
        commit("e"),
        commit("f", document=THIRD),
    ]
    groups = divide_weighed(writes)
    assert [len(group) for group in groups] == [3, 1, 1, 1, 2]
    assert [write for group in groups for write in group] == writes
