"""Events and replies as they travel between nodes: one format, older ones are still read."""

import json
from collections.abc import Awaitable, Callable

import msgspec

from scheduler_service.domain.audit_acts import Act
from scheduler_service.domain.document import Document
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.replies import (
    Reactivated,
    Recalled,
    Refusal,
    Reply,
    Started,
    StartedMany,
    Taken,
    Unchanged,
)
from scheduler_service.domain.turn_events import (
    Activated,
    AlarmRang,
    Backfilled,
    CallEnded,
    CancelRequested,
    Created,
    Destroyed,
    Event,
    FeedbackArrived,
    InstanceLost,
    InstancesResolved,
    LeasesChanged,
    MissedCounted,
    PartEnded,
    PartProgressed,
    Paused,
    Released,
    Replanned,
    Triggered,
    Unsent,
    Updated,
)
from scheduler_service.domain.wire import Answer, Fault, Token
from scheduler_service.engine.decision import Job
from scheduler_service.engine.document_bytes import encode_all
from scheduler_service.ports.delivery import Command, Compile, Definition
from scheduler_service.ports.errors import (
    StoreConflict,
    StoreError,
    StoreRefused,
    StoreStopping,
    StoreUnavailable,
    StoreUncertain,
)
from scheduler_service.ports.state import Remembered

Plain = (
    Created
    | Updated
    | Activated
    | Paused
    | Destroyed
    | AlarmRang
    | Triggered
    | Backfilled
    | FeedbackArrived
    | CancelRequested
    | Released
    | Replanned
    | MissedCounted
    | InstancesResolved
    | InstanceLost
    | PartEnded
    | PartProgressed
    | LeasesChanged
)
AnyReply = Taken | Unchanged | Started | StartedMany | Reactivated | Recalled | Refusal


class EndedMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call's outcome: an answer, or why there was none."""

    token: Token
    answer: Answer | None = None
    fault: Fault | None = None


class ReportMessage(msgspec.Struct, frozen=True):
    """`FeedbackArrived`, its body as JSON: numbers there are of any size, those of msgpack have 64 bits."""

    event: FeedbackArrived
    body: bytes


class Ask(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one node asks of a job on another; without any event: how the job stands.

    A node that does not know `unsent` yet takes it for the question how the job stands.
    """

    event: Plain | None = None
    ended: EndedMessage | None = None
    unsent: Unsent | None = None
    definition: bytes | None = None
    remembered: Remembered | None = None
    report: ReportMessage | None = None
    act: Act | None = None


class ReadReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the job says: a reply, the whole document, or a StoreError: its name, text and `is_public`."""

    reply: AnyReply | None = None
    document: bytes | None = None
    error: str = ""
    text: str = ""
    is_public: bool = False


_ENCODER = msgspec.msgpack.Encoder()
_ASKS = msgspec.msgpack.Decoder(Ask)
_KEPT: msgspec.json.Decoder[AnyReply] = msgspec.json.Decoder(AnyReply)
_TOLDS = msgspec.msgpack.Decoder(ReadReply)
ERRORS: dict[str, type[StoreError]] = {
    "conflict": StoreConflict,
    "uncertain": StoreUncertain,
    "stopping": StoreStopping,  # before what it is one of, which an older program takes it for
    "unavailable": StoreUnavailable,
    "refused": StoreRefused,
}
"""By its name for other processes; the first one that fits names an error."""


def write_ask(command: Command | None) -> bytes:
    """The message that takes `command` to a job; None: the job is only read. `answer` stays behind."""
    if command is None:
        return _ENCODER.encode(Ask())
    match command.event:
        case CallEnded(token=token, outcome=Answer() as answer):
            ask = Ask(ended=EndedMessage(token, answer=answer))
        case CallEnded(token=token, outcome=Fault() as fault):
            ask = Ask(ended=EndedMessage(token, fault=fault))
        case Unsent() as event:
            ask = Ask(unsent=event)
        case FeedbackArrived(body=body) as event:
            bare = msgspec.structs.replace(event, body=None)
            ask = Ask(report=ReportMessage(bare, json.dumps(body).encode()), remembered=command.remembered)
        case event:
            text = None if command.definition is None else command.definition.text
            ask = Ask(
                event=event,  # type: ignore[arg-type]
                definition=text,
                remembered=command.remembered,
                act=command.act,
            )
    return _ENCODER.encode(ask)


def read_ask(message: bytes) -> Ask:
    """The ask of a message. Raises StoreUnavailable where a newer program wrote it."""
    try:
        return _ASKS.decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreUnavailable(f"this node does not understand another one: {error}; update it") from error


def event_of(ask: Ask) -> Event | None:
    """The event of an ask, None where the job is only read."""
    if ask.ended is not None:
        outcome = ask.ended.answer or ask.ended.fault
        assert outcome is not None, "a call ends with an answer or a fault"
        return CallEnded(ask.ended.token, outcome)
    if ask.report is not None:
        return msgspec.structs.replace(ask.report.event, body=json.loads(ask.report.body))
    return ask.unsent or ask.event


def write_reply(reply: Reply) -> bytes:
    """A turn's reply."""
    return _ENCODER.encode(ReadReply(reply=reply))  # type: ignore[arg-type]


def write_kept(reply: Reply) -> bytes:
    """A reply as it is kept under an Idempotency-Key."""
    return msgspec.json.encode(reply)


def read_kept(kept: bytes) -> Reply:
    """The reply that was kept."""
    return _KEPT.decode(kept)


def write_document(document: Document | None) -> bytes:
    """How a job stands."""
    return _ENCODER.encode(ReadReply(document=b"" if document is None else encode_all(document)))


def write_error(error: StoreError) -> bytes:
    """What kept the turn from being taken."""
    return _ENCODER.encode(ReadReply(error=name_of(error), text=str(error), is_public=error.is_public))


def name_of(error: StoreError) -> str:
    """Its name for other processes."""
    return next((name for name, kind in ERRORS.items() if isinstance(error, kind)), "unavailable")


def read_reply(message: bytes) -> ReadReply:
    """What the job said. Raises the StoreError that it met."""
    try:
        told = _TOLDS.decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreUncertain(f"another node's answer cannot be read: {error}") from error
    if told.error:
        raise ERRORS.get(told.error, StoreUnavailable)(told.text, is_public=told.is_public)
    return told


async def answer_message(
    message: bytes,
    job_key: str,
    *,
    compile_text: Compile,
    read: Callable[[], Awaitable[Job | None]],
    take: Callable[[Command], Awaitable[Reply]],
) -> bytes:
    """The answer to a message to this job: `take` takes the turn that it asks for, or `read` reads the job.

    A StoreError is an answer. Raises whatever else they raise.
    """
    try:
        ask = read_ask(message)
        event = event_of(ask)
        if event is None:
            job = await read()
            return write_document(None if job is None else job.document)
        text = ask.definition
        definition = (
            None if text is None else Definition(text, await compile_text(text, read_job_key(job_key)[0]))
        )
        return write_reply(await take(Command(event, definition, ask.remembered, write_kept, ask.act)))
    except StoreError as error:
        return write_error(error)
