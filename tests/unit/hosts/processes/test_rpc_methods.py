"""The connection between the service and a worker process: calls, errors, notices, and its end."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.hosts.processes.rpc_methods import (
    Frame,
    FrameReader,
    OtherProcessFault,
    RpcAnswer,
    RpcCall,
    RpcConnection,
    RpcFailure,
    RpcNotice,
    write_frame,
)
from scheduler_service.ports.errors import (
    StoreConflict,
    StoreRefused,
    StoreStopping,
    StoreUnavailable,
    StoreUncertain,
)

pytestmark = pytest.mark.anyio
Serve = Callable[[str, bytes], Awaitable[bytes]]


class End:
    """One end of a connection, and what came to it."""

    connection: RpcConnection

    def __init__(self, serve: Serve) -> None:
        self.serve = serve
        self.notices: list[str] = []
        self.take_notice: Callable[[str, bytes], None] = lambda method, argument: self.notices.append(method)
        self.log: list[str] = []
        self.lost = asyncio.Event()

    async def open(self, end: socket.socket) -> None:
        end.setblocking(False)
        self.connection = await RpcConnection.open(
            end,
            serve=self.serve,
            on_notice=self.take_notice,
            on_lost=self.lost.set,
            log=lambda event, /, **keys: self.log.append(event),
        )


async def echo(method: str, argument: bytes) -> bytes:
    """The argument, or the error that the method names."""
    errors: dict[str, Exception] = {
        "conflict": StoreConflict("first"),
        "uncertain": StoreUncertain("perhaps"),
        "unavailable": StoreUnavailable("not now"),
        "stopping": StoreStopping("soon again"),
        "public": StoreUnavailable("starting", is_public=True),
        "refused": StoreRefused("another version wrote it"),
        "fault": ZeroDivisionError("a secret"),
    }
    if method in errors:
        raise errors[method]
    return argument


@asynccontextmanager
async def connected(serve: Serve = echo) -> AsyncIterator[tuple[End, End]]:
    """Both ends of a connection; both serve."""
    ours, theirs = End(serve), End(serve)
    for end, socket_ in zip((ours, theirs), socket.socketpair(), strict=True):
        await end.open(socket_)
    yield ours, theirs
    for end in (ours, theirs):
        end.connection.close()
        await end.lost.wait()


async def test_calls_go_both_ways_at_once() -> None:
    """Each gets its own answer, however many are under way."""
    async with connected() as (ours, theirs):
        texts = [str(number).encode() * number for number in range(200)]
        there = asyncio.gather(*(ours.connection.call("echo", text) for text in texts))
        back = asyncio.gather(*(theirs.connection.call("echo", text) for text in reversed(texts)))
        assert await there == texts
        assert await back == texts[::-1]


async def test_a_large_argument_arrives_whole() -> None:
    """An array of definitions may have 4 MiB."""
    async with connected() as (ours, _):
        text = bytes(range(256)) * (16 << 12)
        assert await ours.connection.call("echo", text) == text


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("conflict", StoreConflict),
        ("uncertain", StoreUncertain),
        ("unavailable", StoreUnavailable),
        ("stopping", StoreStopping),
        ("public", StoreUnavailable),
        ("refused", StoreRefused),
    ],
)
async def test_an_error_is_raised_where_it_was_asked(method: str, kind: type[Exception]) -> None:
    """With its kind and its text, public or not; the connection goes on."""
    async with connected() as (ours, theirs):
        with pytest.raises(kind) as caught:
            await ours.connection.call(method, b"")
        assert str(caught.value) == str(await _raised(method))
        assert getattr(caught.value, "is_public", False) == (method in ("public", "stopping"))
        assert await ours.connection.call("echo", b"on") == b"on"
        assert theirs.log == []


async def _raised(method: str) -> Exception:
    try:
        await echo(method, b"")
    except Exception as error:  # noqa: BLE001 - it is what is asked for
        return error
    raise AssertionError(method)


async def test_a_fault_is_told_without_its_text() -> None:
    """What it was stands in the log of the process that met it."""
    async with connected() as (ours, theirs):
        with pytest.raises(OtherProcessFault) as caught:
            await ours.connection.call("fault", b"")
        assert "a secret" not in str(caught.value)
        assert theirs.log == ["call_failed"]


async def test_a_cut_line_leaves_calls_uncertain() -> None:
    """What was under way may have been done; what comes later was not sent."""

    received = asyncio.Event()

    async def hang(method: str, argument: bytes) -> bytes:
        received.set()
        await asyncio.get_running_loop().create_future()
        return b""

    async with connected(hang) as (ours, theirs):
        asked = asyncio.ensure_future(ours.connection.call("echo", b""))
        await received.wait()
        theirs.connection.close()
        with pytest.raises(StoreUncertain):
            await asked
        await ours.lost.wait()
        with pytest.raises(StoreUnavailable):
            await ours.connection.call("echo", b"")
        ours.connection.notify("no", b"receiver")


async def test_what_is_told_keeps_its_place() -> None:
    """After the first step of what was called before it, before what is called after it."""
    order: list[str] = []

    async def note(method: str, argument: bytes) -> bytes:
        order.append(method)
        return b""

    async with connected(note) as (ours, theirs):
        theirs.notices = order
        first = asyncio.ensure_future(ours.connection.call("one", b""))
        await asyncio.sleep(0)
        ours.connection.notify("two", b"")
        await asyncio.gather(first, ours.connection.call("three", b""))
        assert order == ["one", "two", "three"]


FRAMES = st.one_of(
    st.builds(RpcCall, st.integers(0, 1 << 40), st.text(max_size=9), st.binary(max_size=99)),
    st.builds(RpcNotice, st.text(max_size=9), st.binary(max_size=99)),
    st.builds(RpcAnswer, st.integers(0, 1 << 40), st.binary(max_size=99)),
    st.builds(RpcFailure, st.integers(0, 1 << 40), st.text(max_size=9), st.text(max_size=9)),
)


@given(st.lists(FRAMES, max_size=9), st.integers(1, 50))
@settings(deadline=None)
def test_messages_survive_any_cutting(frames: list[Frame], size: int) -> None:
    """A stream is read alike in whatever pieces it comes."""
    stream = b"".join(map(write_frame, frames))
    reader = FrameReader()
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert [frame for piece in pieces for frame in reader.feed(piece)] == frames
