"""What a store keeps, packed; what its one writer writes; and the methods of a store that put it there."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.leases import LOST
from scheduler_service.domain.moments import HOUR
from scheduler_service.domain.parts import LeaseChange, PartEnd, QueuedPart, QueueOptions
from scheduler_service.domain.records import AnyRecord
from scheduler_service.persistence.common.group_figures import GroupFigures, Verdict
from scheduler_service.ports.errors import (
    DeliveryUnreadable,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    StoreUncertain,
)
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import NOTHING, Commit, Remembered, Settlement
from scheduler_service.telemetry.metrics.samples import Sample

CLOCK_SKEW = "clock_skew"
COMPLETION_KEPT_MS = 24 * HOUR
MAX_COMPLETIONS = 100_000
"""How long, and how many, completed leases are known (ports.queues.Queues.complete)."""


class PackedBatch(Batch, frozen=True, array_like=True, gc=False):
    """A batch as an array."""

    records: tuple[AnyRecord, ...]


pack = msgspec.msgpack.Encoder().encode
unpack_records = msgspec.msgpack.Decoder(tuple[AnyRecord, ...]).decode
unpack_delivery = msgspec.msgpack.Decoder(Delivery).decode
unpack_options = msgspec.msgpack.Decoder(QueueOptions).decode
unpack_part = msgspec.msgpack.Decoder(QueuedPart).decode
unpack_end = msgspec.msgpack.Decoder(PartEnd).decode


def read_deliveries(rows: Iterable[tuple[bytes, bytes]]) -> list[Delivery]:
    """The deliveries of `rows` (id, content), up to one that is damaged.

    Raises DeliveryUnreadable where that is the first one.
    """
    found: list[Delivery] = []
    for place, content in rows:
        try:
            found.append(_read_delivery(place, content))
        except (msgspec.MsgspecError, ValueError) as error:
            if found:
                break  # the next page begins with it
            raise DeliveryUnreadable(place, error) from error
    return found


def _read_delivery(place: bytes, content: bytes) -> Delivery:
    delivery = unpack_delivery(content)
    if delivery.delivery_id.encode() != place:  # reading would go on behind another one
        raise ValueError(f"it calls itself {delivery.delivery_id!r}")
    return delivery


class Settle(msgspec.Struct, frozen=True, gc=False):
    """Results of tries of deliveries."""

    settlements: tuple[Settlement, ...]


class Written(msgspec.Struct, frozen=True, gc=False):
    """The history has these batches (uid, sequence); `at_once`: what it has is deleted now."""

    keys: tuple[tuple[str, int], ...]
    at_once: bool = False


class Forget(msgspec.Struct, frozen=True, gc=False):
    """Removes the last traces of a destroyed job; a living one stays. The verdict: whether there was one."""

    job_id: str


class Keep(msgspec.Struct, frozen=True, gc=False):
    """A number of the store's own."""

    key: str
    value: int


StoreWrite = Commit | Settle | Remembered | Written | Forget | Keep
_Write = TypeVar("_Write", contravariant=True)
_Writer = TypeVar("_Writer", bound="Writer[Any]")


class Writer(Protocol[_Write]):
    """Writes groups, one after the other, in the order of the calls."""

    @property
    def groups(self) -> GroupFigures:
        """What was written so far."""

    def put(self, write: _Write, *, may_wait: bool = False) -> "asyncio.Future[Any]":
        """Returns at once; the future ends when `write` is durable. Raises StoreError.

        `may_wait`: the writer may keep it back for some milliseconds, so that others join its group.
        """

    def put_all(self, writes: Sequence[_Write]) -> "asyncio.Future[list[Verdict]]":
        """Writes of one group; the future has for each its result or its StoreError."""

    @property
    def count_waiting(self) -> Callable[[], int]:
        """Tells about how many calls of `put` and `put_all` are not in a group yet."""


class StoreWrites(Generic[_Writer]):
    """The writes of `ports.state.OpenStore`, which documents them."""

    def __init__(self, writer: _Writer) -> None:
        self.writer = writer

    @property
    def commits_waiting(self) -> int:
        return self.writer.count_waiting()

    def commit(self, commit: Commit) -> Awaitable[None]:
        return self.writer.put(commit, may_wait=commit.may_wait)

    def samples(self, *, is_away: bool = False) -> Iterable[Sample]:
        return self.writer.groups.samples(is_away=is_away)

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        verdicts = await self.writer.put_all(commits)
        return [verdict if isinstance(verdict, StoreError) else None for verdict in verdicts]

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        return self.writer.put(Settle(tuple(settlements)))

    def remember(self, remembered: Remembered) -> Awaitable[None]:
        return self.writer.put(remembered)

    def written(self, keys: Sequence[tuple[str, int]]) -> Awaitable[None]:
        return self.writer.put(Written(tuple(keys)))

    def forget(self, job_id: str) -> Awaitable[bool]:
        return self.writer.put(Forget(job_id))

    def save_clock_skew(self, skew: int) -> Awaitable[None]:
        return self.writer.put(Keep(CLOCK_SKEW, skew))


def not_written(place: str, error: Exception) -> StoreUnavailable:
    """A write to the store at `place` failed before it could have an effect."""
    return StoreUnavailable(f"Nothing was written to {place}: {error}.")


def outcome_unknown(place: str, error: Exception) -> StoreUncertain:
    """A write failed after it may have been made durable."""
    return StoreUncertain(f"Whether {place} holds the write is unknown: {error}. Load before you write.")


def conflict(commit: Commit, stored: tuple[str, object] | None) -> StoreConflict:
    """Why `commit` is refused over the `stored` uid and sequence; None: the store has no such job."""
    job_id, expected = commit.entry.job_id, commit.expected
    if expected == NOTHING:
        return StoreConflict(f"Job {job_id} is in the store already, or was: load it.")
    if stored is None:
        return StoreConflict(f"Job {job_id} is not in the store: expected at sequence {expected}.")
    uid, sequence = stored
    return StoreConflict(
        f"Job {job_id} (life {uid}) is at sequence {sequence}, not at {expected} of life {commit.entry.uid}: "
        "another writer was first. Load it again."
    )


def write_change(serial: int, what: str, at: int, instance: str) -> str:
    """A lease change as a line; a part's changes are such lines one after the other."""
    return f"{serial} {what} {at} {instance}\n"


def read_changes(lines: str) -> tuple[LeaseChange, ...]:
    """The lease changes of `write_change`, in order."""
    found = [line.split(" ") for line in lines.splitlines()]
    return tuple(
        LeaseChange(int(serial), instance, int(at), what == LOST) for serial, what, at, instance in found
    )


def lost_part_end(instance: str, retries: int) -> PartEnd:
    """The end of a part whose last lease expired."""
    text = f"instance {instance} gave no sign of life within its lease, after {retries} unexpected retries"
    return PartEnd(error="timeout", failure_type=FailureType.TIMEOUT, message=text, instance=instance)
