"""The one codec of a job's state, for every store.

A document is written as `{format, head, contexts}` in MessagePack. Contexts of qos 0 are left out: they
exist only in memory (SPEC section 8), but for those that a process which stops has given away. An older
format is upgraded on load; a newer one is refused.

Where contexts lie in a store of their own, the document of a job is `APART`, the version of its contexts, and
the same document without them. MessagePack never begins with the first byte of `APART`.
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


class ContextsApart(SnapshotError):
    """The contexts of this state lie in a store of their own, and it was not asked for them."""


class Divided(msgspec.Struct, frozen=True):
    """A document whose parts stay packed."""

    format: int
    head: msgspec.Raw
    contexts: msgspec.Raw = msgspec.Raw(b"\x80")


APART = b"\xc1apart\x01"
"""The beginning of a document whose contexts lie in a store of their own."""
VERSION_BYTES = 12

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Stored)
_DIVIDER = msgspec.msgpack.Decoder(Divided)
_NO_CONTEXTS = b"\x80"
_BARE = len(APART) + VERSION_BYTES


def encode(document: Document) -> bytes:
    """The durable part of `document` as bytes."""
    return _ENCODER.encode({"format": FORMAT, "head": document.head, "contexts": durable_contexts(document)})


def encode_all(document: Document) -> bytes:
    """All of `document` as bytes, for the memory of another node; `decode` reads them."""
    return _ENCODER.encode({"format": FORMAT, "head": document.head, "contexts": document.contexts})


def decode(stored: bytes) -> Document:
    """The document in `stored`. Raises SnapshotError, ContextsApart."""
    if is_apart(stored):
        raise ContextsApart(
            "its contexts lie in a store of their own: start the service with contexts.url as it was"
        )
    try:
        read = _DECODER.decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SnapshotError(f"the stored state of a job cannot be read: {error}") from error
    if read.format > FORMAT:
        raise SnapshotError(
            f"the stored state has format {read.format}, this program knows {FORMAT}; install a newer one"
        )
    return Document(read.head, dict(read.contexts))


def without_contexts(stored: bytes) -> bytes | None:
    """What `encode` wrote, without its contexts, which are not unpacked; None: it has none."""
    divided = _DIVIDER.decode(stored)
    if bytes(divided.contexts) == _NO_CONTEXTS:
        return None
    return _ENCODER.encode({"format": divided.format, "head": divided.head, "contexts": {}})


def name_version(version: int, bare: bytes) -> bytes:
    """The document `bare`, whose contexts lie apart under `version` (from 0, below 2 ** 96)."""
    return APART + version.to_bytes(VERSION_BYTES) + bare


def is_apart(stored: bytes) -> bool:
    """Whether the contexts of `stored` lie in a store of their own."""
    return stored.startswith(APART)


def read_version(stored: bytes) -> tuple[int, bytes]:
    """The version that `name_version` has named, and the document without contexts."""
    return int.from_bytes(stored[len(APART) : _BARE]), stored[_BARE:]


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
