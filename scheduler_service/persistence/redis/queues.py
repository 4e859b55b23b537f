"""The queues of the embedded host over Redis: the parts are stored beside the jobs, by the same writer.

Arguments and answers are those of `scripts/parts.lua`.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from scheduler_service.domain.effects import (
    AcceptChanges,
    PublishParts,
    QueueWrite,
    ReconfigureParts,
    WithdrawParts,
)
from scheduler_service.domain.leases import (
    ChangedPart,
    Claim,
    EndedPart,
    Freeing,
    HeldPart,
    Leased,
    QueueFigures,
    QueueQuery,
    Renewed,
    Swept,
)
from scheduler_service.domain.parts import (
    PartEnd,
    PartName,
    QueuedPart,
    QueueOptions,
    as_said,
    digest_said,
    end_of_unclaimed,
    write_part_id,
)
from scheduler_service.persistence.common.writes import (
    COMPLETION_KEPT_MS,
    MAX_COMPLETIONS,
    lost_part_end,
    pack,
    read_changes,
    unpack_end,
    unpack_options,
    unpack_part,
)
from scheduler_service.persistence.redis.encoding import number, read_number, text, unframe
from scheduler_service.persistence.redis.reader import Reader

Arguments = list[bytes]


class Step(msgspec.Struct, frozen=True, gc=False):
    """One conditional write: its arguments, and how its verdict is read."""

    arguments: tuple[bytes, ...]
    read: Callable[[bytes], object]


def queued_arguments(write: QueueWrite) -> list[Arguments]:
    """What a commit writes into the queues, each with its arguments."""
    match write:
        case PublishParts(parts=parts):
            return [_publish(part) for part in parts]
        case WithdrawParts(uid=uid, execute_number=execution, request_counts=attempt):
            return [[b"withdraw", _owner(uid, execution), b"%d" % attempt]]
        case ReconfigureParts(name=name, options=options):
            return [[b"reconfigure", _step(name), _front(options), *_options(options)]]
        case AcceptChanges(name=name, serial=serial):
            return [[b"accept", write_part_id(name).encode(), b"%d" % serial]]


class RedisQueues:
    """`ports.queues.Queues`, which documents the methods. `max_completions` completed leases are known."""

    max_completions = MAX_COMPLETIONS

    def __init__(self, *, put: Callable[[Step], Awaitable[Any]], reader: Reader) -> None:
        self._put = put
        self._reader = reader

    def claim(self, claim: Claim) -> Awaitable[tuple[Leased, ...]]:
        queue, leases = _queue_key(claim.tenant, claim.queue), [lease.encode() for lease in claim.leases]
        capacity = b"" if claim.capacity is None else b"%d" % claim.capacity
        place = (queue, claim.instance.encode(), b"%d" % claim.now, capacity, b"%d" % claim.room)
        return self._put(Step((b"claim", *place, b"%d" % len(leases), *leases), _read_claimed))

    def renew(self, lease: str, now: int) -> Awaitable[Renewed | None]:
        return self._put(Step((b"renew", lease.encode(), b"%d" % now), _read_renewed))

    def complete(self, lease: str, end: PartEnd, now: int) -> Awaitable[EndedPart | bool]:
        read = partial(_read_completed, end)
        bounds = (
            b"%016d" % end.at,
            b"%016d" % max(end.at - COMPLETION_KEPT_MS, 0),
            b"%d" % self.max_completions,
        )
        asked = (b"complete", lease.encode(), b"%d" % now, pack(end), digest_said(end), *bounds)
        return self._put(Step(asked, read))

    def free(self, freeing: Freeing) -> Awaitable[Swept | None]:
        queue, lease = _queue_key(freeing.tenant, freeing.queue), (freeing.lease or "").encode()
        asked = (b"free", freeing.part_id.encode(), queue, b"%d" % freeing.now, lease)
        return self._put(Step(asked, _read_freed))

    def sweep(self, now: int) -> Awaitable[Swept]:
        return self._put(Step((b"sweep", b"%d" % now), _read_swept))

    def extend(self, now: int) -> Awaitable[None]:
        return self._put(Step((b"extend", b"%d" % now), _read_nothing))

    def hold(self, tenant: str, queue: str, now: int) -> Awaitable[None]:
        return self._put(Step((b"hold", _queue_key(tenant, queue), b"%d" % now), _read_nothing))

    def go_on(self, tenant: str, queue: str, since: int, now: int) -> Awaitable[None]:
        asked = (b"go_on", _queue_key(tenant, queue), b"%d" % since, b"%d" % now)
        return self._put(Step(asked, _read_nothing))

    def drop(self, part_id: str) -> Awaitable[None]:
        return self._put(Step((b"drop", part_id.encode()), _read_nothing))

    async def ended(self, after: str, limit: int) -> list[EndedPart]:
        begin = b"(" + after.encode() if after else b"-"
        return [_read_ended(*row) for row in await self._reader.script("ended", begin, limit)]

    async def changed(self, after: str, limit: int) -> list[ChangedPart]:
        begin = b"(" + after.encode() if after else b"-"
        return [_read_changed(*row) for row in await self._reader.script("changed", begin, limit)]

    async def figures(self, query: QueueQuery) -> list[QueueFigures]:
        tenant = text(query.tenant)
        if query.name is None:
            first = b"(" + tenant + query.after.encode() if query.after else b"[" + tenant
            last = b"(" + tenant + b"\xff"
        else:
            first = last = b"[" + _queue_key(query.tenant, query.name)
        found = await self._reader.script("queues", first, last, query.limit)
        return [_read_figures(len(tenant), *row) for row in found]

    async def held(self, query: QueueQuery) -> list[HeldPart]:
        begin = b"(" + query.after.encode() if query.after else b"-"
        queue = _queue_key(query.tenant, query.name or "")
        return [_read_held(*row) for row in await self._reader.script("held", queue, begin, query.limit)]


_BEFORE, _WITHDRAWN = b"before", b"withdrawn"


def _queue_key(tenant: str, queue: str) -> bytes:
    """The name of a queue in keys."""
    return text(tenant) + queue.encode()


def _publish(part: QueuedPart) -> Arguments:
    name, options = part.name, part.options
    queue = _queue_key(part.tenant, part.queue)
    return [
        b"publish", write_part_id(name).encode(), b"%d" % part.total, _step(name),
        b"%d" % name.request_counts, _owner(name.uid, name.execute_number), queue, pack(part),
        b"" if part.published is None else b"%d" % part.published,
        _front(options) + number(part.created_at), *_options(options),
    ]  # fmt: skip


def _front(options: QueueOptions) -> bytes:
    """Sorts the highest priority first, then parts that name an instance; the age of a part follows."""
    return number(-options.priority) + (b"\0" if options.specific else b"\1")


def _options(options: QueueOptions) -> Arguments:
    specific = msgspec.json.encode(options.specific) if options.specific else b""
    numbers = (options.lease, options.retries, options.delay, options.queue_timeout)
    return [specific, *(b"%d" % value for value in numbers), pack(options)]


def _step(name: PartName) -> bytes:
    return f"{name.uid}-{name.execute_number}-{name.request_counts}-{name.step}".encode()


def _owner(uid: str, execution: int) -> bytes:
    return f"{uid}-{execution}".encode()


def _read_claimed(said: bytes) -> tuple[Leased, ...]:
    """The leases that a claim got."""
    return tuple(_read_leased(one) for one in unframe(said))


def _read_leased(said: bytes) -> Leased:
    lease, until, options, content, changes, first = unframe(said)
    part = msgspec.structs.replace(unpack_part(content), options=unpack_options(options))
    return Leased(lease.decode(), int(until), part, read_changes(changes.decode()), int(first))


def _read_renewed(said: bytes) -> Renewed | None:
    """The lease after its renewal; None: it is lost."""
    if not said:
        return None
    until, state, packed, content = unframe(said)
    options, part = unpack_options(packed), unpack_part(content)
    is_cancelled = state == b"cancelled"
    return Renewed(int(until), options.lease, options.renew, is_cancelled, part.job_id, part.name)


def _read_completed(end: PartEnd, said: bytes) -> EndedPart | bool:
    """The result of completing a lease with `end`; where it had an end before, that one is in the answer."""
    if said in (b"lost", b"known"):
        return said == b"known"
    if said.startswith(_BEFORE):
        finish = said.removeprefix(_BEFORE)
        return finish != b"" and as_said(unpack_end(finish)) == as_said(end)
    if said.startswith(_WITHDRAWN):
        ended = _read_ended(*unframe(said.removeprefix(_WITHDRAWN)))
        return msgspec.structs.replace(ended, is_withdrawn=True)
    return _read_ended(*unframe(said.removeprefix(b"ended")))


def _read_freed(said: bytes) -> Swept | None:
    """What became of a part whose lease was ended; None: nobody held it."""
    return _read_swept(said) if said else None


def _read_swept(said: bytes) -> Swept:
    """The result of a sweep."""
    look, ended, freed = unframe(said)
    return Swept(
        tuple(_read_ended(*unframe(one)) for one in unframe(ended)),
        int(look) if look else None,
        tuple(_read_changed(*unframe(one)) for one in unframe(freed)),
    )


def _read_ended(
    part_id: bytes,
    content: bytes,
    instance: bytes,
    retries: bytes,
    finish: bytes,
    options: bytes,
    changes: bytes,
) -> EndedPart:
    """A part that is over. `finish` empty: its last lease expired, or nobody has claimed it."""
    part, name = unpack_part(content), instance.decode()
    if finish:
        end = msgspec.structs.replace(unpack_end(finish), instance=name)
    elif name:
        end = lost_part_end(name, int(retries))
    else:
        end = end_of_unclaimed(unpack_options(options).queue_timeout)
    unacknowledged = read_changes((changes or b"").decode())
    return EndedPart(part_id.decode(), part.job_id, part.name, end, part.request, unacknowledged)


def _read_changed(part_id: bytes, content: bytes, changes: bytes) -> ChangedPart:
    part = unpack_part(content)
    return ChangedPart(part_id.decode(), part.job_id, part.name, read_changes(changes.decode()))


def _read_figures(skip: int, place: bytes, depth: int, first: bytes, held: int) -> QueueFigures:
    """A queue; `skip` bytes of its place are the tenant, `first` is the oldest part that waits."""
    return QueueFigures(place[skip:].decode(), depth, read_number(first) if first else None, held)


def _read_held(part_id: bytes, content: bytes, instance: bytes, ends: bytes) -> HeldPart:
    part = unpack_part(content)
    return HeldPart(part_id.decode(), part.job_id, part.name, part.total, instance.decode(), int(ends))


def _read_nothing(_: bytes) -> None:
    return
