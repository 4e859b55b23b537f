"""A request as bytes: nothing twice, and nothing can be injected (SPEC section 9)."""

import re
from typing import Any

import pytest

from scheduler_service import __version__
from scheduler_service.domain.wire import Answer, Fault, Headers, OutboundRequest
from scheduler_service.transport.request_bytes import APART_BYTES
from tests.manual_clock import ManualClock
from tests.unit.transport.servers import OK, Stage, head_of, repeating, request


@pytest.mark.parametrize("size", [APART_BYTES, APART_BYTES + 1, 16 * APART_BYTES])
async def test_a_long_body_follows_its_head(stage: Stage, size: int) -> None:
    """It is not copied, and comes whole over a new connection and over a kept one."""
    server = await stage.server(repeating(OK))
    sender = stage.sender()
    body = b"x" * (size - 3) + b"end"
    for _ in range(2):
        assert isinstance(await sender.send(request(server.url, body=body)), Answer)
    assert [raw.partition(b"\r\n\r\n")[2] == body for raw in server.requests] == [True, True]
    assert {head_of(raw)["content-length"] for raw in server.requests} == {str(size)}


async def test_the_bytes_of_a_request(stage: Stage) -> None:
    """Host, length, agent, trace and what the step brings: all of it, and nothing twice (SPEC section 4)."""
    server = await stage.server(repeating(OK))
    sender = stage.sender()
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers: Headers = (("Idempotency-Key", "u-1-0"), ("Content-Type", "application/json"))
    answer = await sender.send(
        request(f"{server.url}/a?b=c#d", headers=headers, body=b'{"a":1}', trace=trace)
    )
    assert (answer.status, answer.body, answer.truncated) == (200, b"ok", False)
    assert answer.headers == (("content-length", "2"),)
    raw = server.requests[0]
    head = head_of(raw)
    traceparent = head.pop("traceparent")
    assert len(head.pop("x-scheduling-deadline")) == 24
    assert raw.endswith(b'\r\n\r\n{"a":1}')
    assert head == {
        "": "POST /a?b=c HTTP/1.1",
        "host": f"127.0.0.1:{server.port}",
        "idempotency-key": "u-1-0",
        "content-type": "application/json",
        "user-agent": f"punctual/{__version__}",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-length": "7",
    }
    assert re.fullmatch(f"00-{trace}-(?!0{{16}})[0-9a-f]{{16}}-01", traceparent)
    await sender.send(request(server.url, trace=trace))
    assert head_of(server.requests[1])["traceparent"] != traceparent


@pytest.mark.parametrize(
    ("awaited", "deadline"), [(0, "2026-01-01T00:00:05.250Z"), (90_000, "2026-01-01T00:01:30.250Z")]
)
async def test_a_call_says_until_when_it_is_awaited(stage: Stage, awaited: int, deadline: str) -> None:
    """By the clock when it is sent: its timeout, or as long as its work is awaited (SPEC section 13)."""
    server = await stage.server(repeating(b"HTTP/1.1 303 See\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"))
    sender = stage.sender(clock=ManualClock(wall=1_767_225_600_250))
    await sender.send(request(server.url, timeout=5_000, awaited=awaited, redirects=1))
    said = [head_of(raw)["x-scheduling-deadline"] for raw in server.requests]
    assert said == [deadline, deadline]


async def test_the_steps_own_headers_win(stage: Stage) -> None:
    """traceparent, User-Agent, Accept and Accept-Encoding of the step stay; text goes as UTF-8."""
    server = await stage.server(repeating(OK))
    own = (
        ("TraceParent", "00-a-b-00"),
        ("user-agent", "me"),
        ("ACCEPT", "text/x"),
        ("Accept-Encoding", "gzip"),
    )
    await stage.sender().send(request(server.url, headers=(*own, ("X-Name", "订单\té")), trace="1" * 32))
    head = head_of(server.requests[0])
    assert {head[name] for name in ("traceparent", "user-agent", "accept", "accept-encoding")} == {
        value for _, value in own
    }
    assert head["x-name"] == "订单\té"


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [("POST", None, "0"), ("GET", None, None), ("DELETE", b"", "0"), ("GET", b"x", "1")],
)
async def test_content_length(stage: Stage, method: str, body: bytes | None, length: str | None) -> None:
    """A body has its length, none has none, but for the methods that expect one."""
    server = await stage.server(repeating(OK))
    await stage.sender().send(request(server.url, method, body=body))
    assert head_of(server.requests[0]).get("content-length") == length


@pytest.mark.parametrize(
    "changes",
    [
        {"headers": (("X-A", "b\r\nX-Evil: 1"),)},
        {"headers": (("X-A", "b\x00"),)},
        {"headers": (("X-A\r\nX-Evil", "b"),)},
        {"headers": (("X A", "b"),)},
        {"headers": (("", "b"),)},
        {"headers": (("X-A", "\ud800"),)},
        {"headers": (("Host", "other"),)},
        {"headers": (("content-LENGTH", "1"),)},
        {"headers": (("Transfer-Encoding", "chunked"),)},
        {"method": "GET / HTTP/1.1\r\nX"},
        {"method": "CONNECT"},
        {"method": ""},
        {"url": "http://127.0.0.1/\r\nX-Evil: 1"},
        {"url": "http://127.0.0.1/\ud800"},
    ],
)
async def test_nothing_can_be_injected(stage: Stage, changes: dict[str, Any]) -> None:
    """What HTTP cannot carry is a Fault, and no byte of it is sent."""
    server = await stage.server(repeating(OK))
    url = changes.get("url", server.url).replace("127.0.0.1/", f"127.0.0.1:{server.port}/")
    outcome = await stage.sender().send(
        OutboundRequest(changes.get("method", "POST"), url, changes.get("headers", ()), timeout=1000)
    )
    assert "Evil" not in outcome.message or "header name" in outcome.message
    assert server.connections == 0


async def test_what_is_known_of_names_is_not_taken_for_values(stage: Stage) -> None:
    """Requests with the same names share the form of their head; a per cent sign in it is one (RFC 9110)."""
    server = await stage.server(repeating(OK))
    sender = stage.sender()
    for value in ("100%", "%s", "50"):
        headers: Headers = (("X%s", value), ("User-Agent", f"{value}%d"))
        assert isinstance(await sender.send(request(server.url, headers=headers)), Answer)
        head = head_of(server.requests[-1])
        assert (head["x%s"], head["user-agent"]) == (value, f"{value}%d")
    broken = request(server.url, headers=(("X%s", "a\nb"), ("User-Agent", "a")))
    assert isinstance(await sender.send(broken), Fault)
    assert len(server.requests) == 3
