"""The parts of queues as the scripts take and give them (scripts/parts.lua)."""

import msgspec

from scheduler_service.domain.effects import PublishParts, QueueWrite, ReconfigureParts, WithdrawParts
from scheduler_service.domain.leases import EndedPart, Leased, Renewed, Swept
from scheduler_service.domain.parts import PartEnd, PartName, QueuedPart, QueueOptions, as_said, write_part_id
from scheduler_service.persistence.redis.frames import unframe
from scheduler_service.persistence.redis.keys import number, text
from scheduler_service.persistence.redis.rows import encode
from scheduler_service.persistence.sqlite.queue_parts import lose_part

Arguments = list[bytes]
BEFORE = b"before"
_read_options = msgspec.msgpack.Decoder(QueueOptions).decode
_read_part = msgspec.msgpack.Decoder(QueuedPart).decode
_read_end = msgspec.msgpack.Decoder(PartEnd).decode


def queue_key(tenant: str, queue: str) -> bytes:
    """What tells one queue from another."""
    return text(tenant) + queue.encode()


def queued_arguments(write: QueueWrite) -> list[Arguments]:
    """What a turn writes into the queues, each with its arguments."""
    match write:
        case PublishParts(parts=parts):
            return [_publish(part) for part in parts]
        case WithdrawParts(uid=uid, execute_number=execution, request_counts=attempt):
            return [[b"withdraw", _owner(uid, execution), b"%d" % attempt]]
        case ReconfigureParts(name=name, options=options):
            return [[b"reconfigure", _step(name), _front(options), *_options(options)]]


def _publish(part: QueuedPart) -> Arguments:
    name, options = part.name, part.options
    queue = queue_key(part.tenant, part.queue)
    return [
        b"publish", write_part_id(name).encode(), b"%d" % part.total, _step(name),
        b"%d" % name.request_counts, _owner(name.uid, name.execute_number), queue, encode(part),
        _front(options) + number(part.created_at), *_options(options),
    ]  # fmt: skip


def _front(options: QueueOptions) -> bytes:
    """The highest priority first, then those that name an instance; the age of a part follows."""
    return number(-options.priority) + (b"\0" if options.specific else b"\1")


def _options(options: QueueOptions) -> Arguments:
    specific = msgspec.json.encode(options.specific) if options.specific else b""
    numbers = (options.lease, options.retries, options.delay)
    return [specific, *(b"%d" % value for value in numbers), encode(options)]


def _step(name: PartName) -> bytes:
    return f"{name.uid}-{name.execute_number}-{name.request_counts}-{name.step}".encode()


def _owner(uid: str, execution: int) -> bytes:
    return f"{uid}-{execution}".encode()


def read_claimed(said: bytes) -> tuple[Leased, ...]:
    """What a claim was given."""
    return tuple(_read_leased(one) for one in unframe(said))


def _read_leased(said: bytes) -> Leased:
    lease, until, options, content = unframe(said)
    part = msgspec.structs.replace(_read_part(content), options=_read_options(options))
    return Leased(lease.decode(), int(until), part)


def read_renewed(said: bytes) -> Renewed | None:
    """What became of a lease."""
    if not said:
        return None
    until, state, packed, content = unframe(said)
    options, part = _read_options(packed), _read_part(content)
    is_cancelled = state == b"cancelled"
    return Renewed(int(until), options.lease, options.renew, is_cancelled, part.job_id, part.name)


def read_completed(end: PartEnd, said: bytes) -> EndedPart | bool:
    """What completing a lease with `end` came to; where it had an end before, that one is in the answer."""
    if said in (b"lost", b"known"):
        return said == b"known"
    if said.startswith(BEFORE):
        finish = said.removeprefix(BEFORE)
        return finish != b"" and as_said(_read_end(finish)) == as_said(end)
    return read_ended(*unframe(said.removeprefix(b"ended")))


def read_swept(said: bytes) -> Swept:
    """What a look at the leases found."""
    look, *ended = unframe(said)
    return Swept(tuple(read_ended(*unframe(one)) for one in ended), int(look) if look else None)


def read_ended(part_id: bytes, content: bytes, instance: bytes, retries: bytes, finish: bytes) -> EndedPart:
    """A part that is over. Without `finish` nobody said so: its last lease ended."""
    part, name = _read_part(content), instance.decode()
    end = (
        msgspec.structs.replace(_read_end(finish), instance=name) if finish else lose_part(name, int(retries))
    )
    return EndedPart(part_id.decode(), part.job_id, part.name, end, part.request)
