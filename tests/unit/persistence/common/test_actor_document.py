"""The actor state of a job, as programs of different versions read it."""

from typing import Any

import msgspec
import pytest

from scheduler_service.domain.moments import Due
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.actor_document import (
    FORMAT,
    ActorDocument,
    read_actor_document,
    write_actor_document,
)
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.persistence.samples import entry

STATE = ActorDocument(
    format=FORMAT, sequence=7, writer=Holder("one", "1"), entry=entry(), due=Due(), document=b"state"
)


def with_members(**members: Any) -> bytes:
    """The state as a program writes it that knows these members."""
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(write_actor_document(STATE)), **members})


def test_a_state_is_read_as_it_was_written() -> None:
    """All of it."""
    assert read_actor_document(write_actor_document(STATE)) == STATE


def test_an_older_program_passes_over_what_it_does_not_know() -> None:
    """So members are added without a new format; `messages` was one (decision 61)."""
    assert read_actor_document(with_members(later=[{"key": "k"}])) == STATE


@pytest.mark.parametrize("raw", [b"", b"\xc1", with_members(format=FORMAT + 1), with_members(sequence="x")])
def test_what_cannot_be_read_says_so(raw: bytes) -> None:
    """Damaged, or of a newer format: the job does nothing, and no half of its state is used."""
    with pytest.raises(StoreUnavailable, match="actor state"):
        read_actor_document(raw)
