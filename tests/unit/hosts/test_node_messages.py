"""Events as they travel between processes and nodes."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.audit_acts import Act
from scheduler_service.domain.replies import Reply, Taken
from scheduler_service.domain.turn_events import FeedbackArrived, Triggered
from scheduler_service.hosts.node_messages import (
    answer_message,
    event_of,
    read_ask,
    read_reply,
    write_ask,
    write_error,
)
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import (
    StoreConflict,
    StoreError,
    StoreStopping,
    StoreUnavailable,
    StoreUncertain,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_a_report_arrives_as_it_was_sent(body: Any) -> None:
    """Whatever JSON can say (SPEC section 5)."""
    event = FeedbackArrived(7, "token", body, 2)
    assert event_of(read_ask(write_ask(Command(event)))) == event


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**400])
def test_numbers_have_any_size(number: int) -> None:
    """Those of msgpack have 64 bits: a report must not fail for it in one process and pass in another."""
    event = FeedbackArrived(1, "token", {"status": "succeed", "data": {"id": number}})
    assert event_of(read_ask(write_ask(Command(event)))) == event


def test_what_is_bytes_stays_bytes() -> None:
    """Parameters of a trigger travel as they were posted."""
    event = Triggered(params=b'{"id": 18446744073709551616}', planned_at=None)
    assert event_of(read_ask(write_ask(Command(event)))) == event


def test_an_event_of_a_newer_program_is_refused_in_words() -> None:
    """In a rolling upgrade the node that knows it not says so, and the sender asks again."""
    message = msgspec.msgpack.encode({"event": {"type": "Teleported", "place": 7}})
    with pytest.raises(StoreUnavailable, match=r"does not understand another one: .*; update it"):
        read_ask(message)
    # What an older node does not know of an event it knows changes nothing for it
    ask = msgspec.msgpack.decode(write_ask(Command(Triggered(params=b"7", planned_at=None))))
    ask["event"]["colour"] = ask["shade"] = "blue"
    assert event_of(read_ask(msgspec.msgpack.encode(ask))) == Triggered(params=b"7", planned_at=None)


@pytest.mark.parametrize("is_public", [False, True])
def test_an_error_stays_public_or_not(is_public: bool) -> None:
    """What another node's database said is not for callers here either."""
    told = write_error(StoreUnavailable("no", is_public=is_public))
    with pytest.raises(StoreUnavailable, match="no") as caught:
        read_reply(told)
    assert caught.value.is_public == is_public


@pytest.mark.parametrize("kind", [StoreConflict, StoreUncertain, StoreStopping, StoreUnavailable])
def test_an_error_stays_what_it_is(kind: type[StoreError]) -> None:
    """The API tells a node that stops from a store that fails."""
    with pytest.raises(StoreError) as caught:
        read_reply(write_error(kind("no")))
    assert type(caught.value) is kind


async def test_who_asks_travels_with_the_event() -> None:
    """The node that takes the turn writes it down."""
    act, taken = Act("switchJob", "Anna", key_id="k1", detail=b"{}"), []

    async def take(command: Command) -> Reply:
        taken.append(command.act)
        return Taken()

    async def nothing(*_: object) -> Any:
        raise AssertionError("no definition comes with it, and nothing is read")

    message = write_ask(Command(Triggered(params=b"{}", planned_at=None), act=act))
    await answer_message(message, "job", compile_text=nothing, read=nothing, take=take)
    assert taken == [act]
