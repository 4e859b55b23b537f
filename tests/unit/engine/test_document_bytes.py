"""The codec of a job's state: what is written is read back, and older formats too."""

from typing import get_args

import msgspec
import pytest

from scheduler_service.domain.document import (
    Calling,
    Checking,
    CheckWaiting,
    Context,
    Document,
    FeedbackAwaited,
    PartsAwaited,
    PartsOpen,
    PartsQueued,
    Phase,
    Resolving,
    Retrying,
)
from scheduler_service.domain.turn_events import HandedOver
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.engine.document_bytes import (
    APART,
    FORMAT,
    ContextsApart,
    Phases,
    SnapshotError,
    decode,
    encode,
    is_apart,
    marks_of,
    name_version,
    needs_commit,
    read_version,
    without_contexts,
)
from tests.rows import each_row
from tests.unit.engine.parts.service_rig import SHARDED, answer, report
from tests.unit.engine.rig import Rig, running


def test_every_phase_survives_the_snapshot() -> None:
    """What is written is read back as it was, in every phase of a step with parts."""
    rig = (
        Rig(request=[SHARDED | {"body": "${schedulingFeedbackUrl}"}], qos=1, **{"async": True})
        .without_instances()
        .triggered()
    )
    seen = [type(rig.context(1).phase).__name__]
    for event in (
        lambda: rig.resolve("a", "b", route="shard"),
        lambda: answer(rig, 0, 500 - 300),
        lambda: report(rig, 1, status="succeed"),
        lambda: answer(rig, 1),
    ):
        assert decode(encode(rig.document)).contexts[1].phase == rig.context(1).phase
        event()
        seen.append(type(rig.context(1).phase).__name__)
    assert seen == ["Resolving", "PartsOpen", "PartsOpen", "PartsOpen", "PartsAwaited"]


def test_an_older_snapshot_is_read() -> None:
    """Format 1 knew no parts; all that it says means the same."""
    rig = Rig(qos=1).triggered()
    raw = msgspec.msgpack.decode(encode(rig.document))
    assert raw["format"] == FORMAT == 2
    read = decode(msgspec.msgpack.encode({**raw, "format": 1}))
    assert read.head == rig.head
    assert read.contexts[1].phase == rig.context(1).phase
    # A state that a newer program wrote is refused by its format
    rig = Rig().create()
    raw = msgspec.msgpack.decode(encode(rig.document))
    with pytest.raises(SnapshotError, match="format 99"):
        decode(msgspec.msgpack.encode({**raw, "format": 99}))


def test_snapshot_drops_contexts_of_qos_0() -> None:
    """What is written at qos 0 is the head alone, until a process that stops gives the job away; else all."""
    for qos, kept in ((0, 0), (1, 1)):
        rig = running(qos)
        again = decode(encode(rig.document))
        assert again.head == rig.head
        assert len(again.contexts) == kept
        rig.deliver(HandedOver())
        assert len(decode(encode(rig.document)).contexts) == 1
    # The head stays as it was; a document that has none is not written anew
    document = running(1).document
    assert document is not None
    stored = encode(document)
    bare = without_contexts(stored)
    assert bare is not None
    assert (bare, without_contexts(bare)) == (encode(Document(document.head)), None)


@each_row("version", [0, 7, 2**96 - 1])
def test_a_document_whose_contexts_lie_apart(version: int) -> None:
    """It names their version, and is not taken for a job without contexts."""
    document = running(1).document
    assert document is not None
    bare = encode(Document(document.head))
    stored = name_version(version, bare)
    assert is_apart(stored)
    assert APART in stored
    assert not is_apart(bare)
    assert read_version(stored) == (version, bare)
    with pytest.raises(ContextsApart, match=r"contexts\.url"):
        decode(stored)


EACH_PHASE: tuple[Phase, ...] = (
    Calling(0, OutboundRequest("POST", "http://a.test", ()), 1),
    Checking(OutboundRequest("GET", "http://a.test", ()), 1),
    CheckWaiting(5),
    FeedbackAwaited(),
    Retrying(5),
    Resolving(0, "shop", 1),
    PartsOpen(0, "shop", "shard", 1, ()),
    PartsQueued(0, "work", "queue://work", 1, (None,)),
    PartsAwaited((None,)),
)


@each_row("phase", EACH_PHASE, ids=lambda phase: type(phase).__name__)
def test_marks_tell_phases_apart(phase: Phase) -> None:
    """What is written has the mark of its own phase, and of no other."""
    document = running(1).document
    assert document is not None
    text = encode(Document(document.head, {1: Context(phase, 9)}))
    marked = [one for one in EACH_PHASE for mark in marks_of([type(one)]) if mark in text]
    assert marked == [phase]


def test_every_phase_of_a_stored_context_has_its_mark_shown() -> None:
    """A phase that is added later has to be looked at above."""
    assert {type(one) for one in EACH_PHASE} == set(get_args(Phases))


@each_row("stored", [b"", b"\xc1", b"\x80", b"\x93"])
def test_damaged_snapshot(stored: bytes) -> None:
    """A damaged state is one error, not a crash."""
    with pytest.raises(SnapshotError):
        decode(stored)


def test_needs_commit() -> None:
    """A turn must be durable when the head changed, or at qos 1 the context."""
    for qos in (0, 1):
        rig = running(qos)
        before = rig.document
        assert before is not None
        assert not needs_commit(before, before)
        assert needs_commit(None, before)
        assert needs_commit(before, None)
        context = before.contexts[1]
        changed = Document(before.head, {1: Context(context.phase, context.deadline + 1)})
        assert needs_commit(before, changed) is (qos == 1)
