"""The records that wait for the history's writer: bounded in bytes; detail is dropped first."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from scheduler_service.domain.records import (
    Audited,
    CheckEnded,
    DeliveryRecord,
    Detail,
    Exchange,
    ExecutionRecord,
    FeedbackSeen,
    Record,
    ResultKept,
    StepEnded,
    without_params,
)
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.history import Batch

# The memory of a record without its bodies, roughly: enough to bound it.
RECORD_BYTES = 400


class Load(msgspec.Struct):
    """What the writer writes at once: batches, those to confirm, executions whose detail was dropped.

    `ticket` counts all batches that were ever appended, up to the last one of this load.
    """

    batches: list[Batch] = []
    confirmed: list[Batch] = []
    dropped: set[tuple[str, int]] = set()
    weight: int = 0
    ticket: int = 0
    carried: int = 0
    """The first so many batches come from the load before this one, and are carried over no further."""
    complete_to: int = 0
    """Every batch up to this ticket is in this load or in an earlier one."""

    def add(self, batch: Batch, *, durable: bool, limit: int) -> None:
        """Adds `batch`; beyond `limit` bytes one that is not durable without its detail."""
        if durable:
            self.confirmed.append(batch)
        elif self.weight >= limit:
            self.dropped.update((batch.uid, number) for number in _detailed(batch))
            batch = msgspec.structs.replace(batch, records=bare_records(batch.records))
        self.batches.append(batch)
        self.weight += weigh(batch)
        self.ticket += 1

    def carry_over_open(self) -> "Load":
        """Moves the batches of executions that do not end in this load to the next load, and returns that.

        An execution that begins and ends in one load is written as one row. A batch is carried over once.
        """
        left = [] if self.dropped else self._take_open()
        weight = sum(map(weigh, left))
        self.weight -= weight
        own = set(map(id, left))
        confirmed = [batch for batch in self.confirmed if id(batch) in own]
        self.confirmed = [batch for batch in self.confirmed if id(batch) not in own]
        if not left:
            self.complete_to = self.ticket
        return Load(
            left,
            confirmed,
            weight=weight,
            ticket=self.ticket,
            carried=len(left),
            complete_to=self.ticket,
        )

    def _take_open(self) -> list[Batch]:
        """Removes the batches with an execution that stays open, but none that was carried over, in order."""
        left: list[Batch] = []
        kept: list[Batch] = []
        ended: set[tuple[str, int]] = set()
        for place in range(len(self.batches) - 1, -1, -1):
            batch = self.batches[place]
            is_open = False
            for record in batch.records:
                if type(record) is not ExecutionRecord:
                    continue
                key = (batch.uid, record.execute_number)
                if record.ended_at is not None:
                    ended.add(key)
                elif key not in ended:
                    is_open = True
            (left if is_open and place >= self.carried else kept).append(batch)
        left.reverse()
        kept.reverse()
        self.batches = kept
        return left

    def carry_over_nothing(self) -> "Load":
        """Keeps all that was appended, and returns an empty load for what comes next."""
        self.complete_to = self.ticket
        return Load(ticket=self.ticket, complete_to=self.ticket)

    def join(self, later: "Load") -> None:
        """Adds what was appended after this load, whose writing failed."""
        self.batches += later.batches
        self.confirmed += later.confirmed
        self.dropped |= later.dropped
        self.weight += later.weight
        self.ticket = later.ticket


def bare_records(records: Iterable[Record]) -> tuple[Record, ...]:
    """What is kept of `records` whatever happens, without its detail."""
    kept = (record for record in records if not isinstance(record, Detail | ResultKept))
    return tuple(without_params(record) if isinstance(record, ExecutionRecord) else record for record in kept)


def _detailed(batch: Batch) -> set[int]:
    return {record.execute_number for record in batch.records if isinstance(record, Detail | ResultKept)}


def weigh(batch: Batch) -> int:
    """About how many bytes of memory `batch` takes. Called on the event loop, for every turn."""
    weight = RECORD_BYTES * len(batch.records)
    record: Any  # by its type
    for record in batch.records:  # what each turn has is weighed without a call
        kind = type(record)
        if kind is StepEnded or kind is CheckEnded:
            exchange = record.exchange
            weight += RECORD_BYTES + len(exchange.request_body or b"") + len(exchange.response_body or b"")
        elif kind is ExecutionRecord:
            if record.params:
                weight += len(record.params)
        elif kind in _HEAVY:
            weight += _HEAVY[kind](record)
    return weight


def _weigh_exchange(exchange: Exchange) -> int:
    return RECORD_BYTES + len(exchange.request_body or b"") + len(exchange.response_body or b"")


# Further records with bodies.
_HEAVY: Mapping[type[Record], Callable[[Any], int]] = {
    FeedbackSeen: lambda record: len(record.body),
    ResultKept: lambda record: len(record.body),
    Audited: lambda record: len(record.act.detail),
    DeliveryRecord: lambda record: 0 if record.exchange is None else _weigh_exchange(record.exchange),
}


Write = Callable[[Batch], None]


def save_good_rows(batches: Iterable[Batch], write: Write) -> list[str]:
    """Writes each batch alone: as it is, else with texts that can be encoded, else without its detail.

    The messages name what was left out or changed. Raises StoreUnavailable: try all of it again later.
    """
    return [message for batch in batches for message in [_write_somehow(batch, write)] if message]


def _write_somehow(batch: Batch, write: Write) -> str | None:
    problem: Exception | None = None
    for version in _versions(batch):
        try:
            write(version)
            break
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - a simpler version may pass
            problem = error
    if problem is None:
        return None
    return f"records of {batch.job_id!r} (uid {batch.uid}, turn {batch.sequence}) were changed: {problem}"


def _versions(batch: Batch) -> Iterator[Batch]:
    yield batch
    records = tuple(_clean(record) for record in batch.records)
    yield msgspec.structs.replace(batch, records=records)
    yield msgspec.structs.replace(batch, records=bare_records(records))


def _clean(value: Any) -> Any:
    """The value with texts that UTF-8 can hold: half of a surrogate pair becomes a question mark."""
    if type(value) is str:
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, tuple):
        return tuple(_clean(member) for member in value)
    if isinstance(value, msgspec.Struct):
        fields = {name: _clean(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    return value
