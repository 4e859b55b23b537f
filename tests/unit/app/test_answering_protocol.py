"""The head of an answer and the first piece of its body are one write."""

import asyncio

from scheduler_service.app.answering_protocol import JOINED_BYTES, HeadWriter
from tests.rows import each_row


class Wire:
    """A transport that keeps what is written, and a cycle that writes to `transport`."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False
        self.expected_content_length = 4
        self.scope = {"method": "GET"}
        loop = asyncio.get_running_loop()
        self.transport = HeadWriter(cycle=self, transport=self, loop=loop)  # type: ignore[arg-type]

    def write(self, data: bytes) -> None:
        """Keeps it."""
        assert not self.is_closed
        self.written.append(data)

    def close(self) -> None:
        """Nothing can be written any more."""
        self.is_closed = True

    def is_closing(self) -> bool:
        """Whether `close` was called."""
        return self.is_closed


async def test_head_and_body_are_written_together() -> None:
    """Once, and what comes then goes its usual way."""
    wire = Wire()
    head_writer = wire.transport
    head_writer.write(b"head ")
    assert (wire.written, head_writer.body_bytes) == ([], 4)
    wire.transport.write(b"body")
    assert wire.written == [b"head body"]
    assert wire.transport is wire
    await asyncio.sleep(0)
    assert wire.written == [b"head body"]


async def test_a_head_alone_has_no_body() -> None:
    """Whatever length it names (RFC 9110, section 9.3.2)."""
    wire = Wire()
    wire.scope["method"] = "HEAD"
    head_writer = wire.transport
    head_writer.write(b"head")
    assert head_writer.body_bytes == 0


async def test_a_head_without_a_body_waits_for_nothing() -> None:
    """A stream whose first event comes later has begun, as its caller sees."""
    wire = Wire()
    wire.transport.write(b"head")
    await asyncio.sleep(0)
    assert (wire.written, wire.transport) == ([b"head"], wire)


async def test_a_long_body_is_not_copied() -> None:
    """It is written behind the head."""
    wire, body = Wire(), b"x" * (JOINED_BYTES + 1)
    wire.transport.write(b"head")
    wire.transport.write(body)
    assert wire.written[0] == b"head"
    assert wire.written[1] is body


async def test_a_close_writes_what_is_held() -> None:
    """An answer to HEAD has no body."""
    wire = Wire()
    wire.transport.write(b"head")
    wire.transport.close()
    assert (wire.written, wire.is_closed) == ([b"head"], True)
    await asyncio.sleep(0)
    assert wire.written == [b"head"]


@each_row("has_body", [True, False])
async def test_nothing_is_written_after_the_end(has_body: bool) -> None:
    """The caller has gone between head and body."""
    wire = Wire()
    wire.transport.write(b"head")
    wire.close()
    assert wire.transport.is_closing()
    if has_body:
        wire.transport.write(b"body")
    await asyncio.sleep(0)
    assert wire.written == []
