"""The one codec of a job's state, for every store.

A document is written as `{format, head, contexts}` in MessagePack. Contexts of qos 0 are left out: they
exist only in memory (SPEC section 8), but for those that a process which stops has given away. An older
format is upgraded on load; a newer one is refused.
"""

from collections.abc import Iterable

import msgspec

from scheduler_service.domain.document import (
    Calling,
    Checking,
    CheckWaiting,
    Context,
    Document,
    FeedbackAwaited,
    Head,
    PartsAwaited,
    PartsOpen,
    PartsQueued,
    Phase,
    Resolving,
    Retrying,
)
from scheduler_service.domain.errors import PunctualError

FORMAT = 2
"""2: the parts of a step. Everything in format 1 is written in the same way in format 2."""

# All phases that a stored context may have.
Direct = Calling | CheckWaiting | Checking | FeedbackAwaited | Retrying
Phases = Direct | Resolving | PartsOpen | PartsQueued | PartsAwaited


class StoredContext(Context, frozen=True, gc=False, omit_defaults=True):
    """A context as it is read back: its phase is one of `Phases`."""

    phase: Phases


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """The envelope."""

    format: int
    head: Head
    contexts: dict[int, StoredContext] = {}


class SnapshotError(PunctualError):
    """A stored state that cannot be read: damaged, or written by a newer version."""


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Stored)


def encode(document: Document) -> bytes:
    """The durable part of `document` as bytes."""
    return _ENCODER.encode({"format": FORMAT, "head": document.head, "contexts": durable_contexts(document)})


def encode_all(document: Document) -> bytes:
    """All of `document` as bytes, for the memory of another node; `decode` reads them."""
    return _ENCODER.encode({"format": FORMAT, "head": document.head, "contexts": document.contexts})


def decode(stored: bytes) -> Document:
    """The document in `stored`. Raises SnapshotError."""
    try:
        read = _DECODER.decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SnapshotError(f"the stored state of a job cannot be read: {error}") from error
    if read.format > FORMAT:
        raise SnapshotError(
            f"the stored state has format {read.format}, this program knows {FORMAT}; install a newer one"
        )
    return Document(read.head, dict(read.contexts))


def durable_contexts(document: Document) -> dict[int, Context]:
    """The contexts that survive a crash: those of executions with qos 1, and those that nobody holds."""
    contexts = document.contexts
    kept: dict[int, Context] = {}
    for run in document.head.opens:
        if (run.qos or run.holder is None) and run.execute_number in contexts:
            kept[run.execute_number] = contexts[run.execute_number]
    return kept


def marks_of(phases: Iterable[type[Phase]]) -> tuple[bytes, ...]:
    """Bytes of which `encode` writes at least one where a context is in one of `phases`.

    A document may have them by chance too, in a body: whoever finds them there looks at the document itself.
    """
    return tuple(_ENCODER.encode("type") + _ENCODER.encode(phase.__name__) for phase in phases)


def needs_commit(before: Document | None, after: Document | None) -> bool:
    """Whether a turn changed anything that must be durable before its effects start."""
    if before is after:
        return False
    if before is None or after is None:
        return True
    if before.head is not after.head and before.head != after.head:
        return True
    for run in after.head.opens:
        if run.qos:
            return durable_contexts(before) != durable_contexts(after)
    return False
