"""What the sender sends, and what it makes of ordinary answers."""

import asyncio
import re
from typing import Any

import pytest

from scheduler_service import __version__
from scheduler_service.domain.wire import Answer, Fault, FaultKind, Headers, OutboundRequest
from scheduler_service.ports.sending import NotSent
from scheduler_service.transport.guard import EgressPolicy
from tests.static_directory import StaticDirectory
from tests.unit.transport.servers import Peer, Stage, TableResolver, answering, repeating

pytestmark = pytest.mark.anyio
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def request(url: str, method: str = "POST", **changes: Any) -> OutboundRequest:
    given: dict[str, Any] = {"headers": (), "timeout": 5000}
    return OutboundRequest(method, url, **(given | changes))


def head_of(raw: bytes) -> dict[str, str]:
    """The headers of a request, names in lower case; the request line under ``."""
    lines = raw.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    pairs = (line.partition(": ") for line in lines[1:])
    return {"": lines[0]} | {name.lower(): value for name, _, value in pairs}


async def test_the_bytes_of_a_request(stage: Stage) -> None:
    """Host, length, agent, trace and what the step brings: all of it, and nothing twice (SPEC section 4)."""
    server = await stage.server(repeating(OK))
    sender = stage.sender()
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers: Headers = (("Idempotency-Key", "u-1-0"), ("Content-Type", "application/json"))
    answer = await sender.send(
        request(f"{server.url}/a?b=c#d", headers=headers, body=b'{"a":1}', trace=trace)
    )
    assert isinstance(answer, Answer)
    assert (answer.status, answer.body, answer.truncated) == (200, b"ok", False)
    assert answer.headers == (("content-length", "2"),)
    raw = server.requests[0]
    head = head_of(raw)
    traceparent = head.pop("traceparent")
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
    assert isinstance(outcome, Fault)
    assert "Evil" not in outcome.message or "header name" in outcome.message
    assert server.connections == 0


async def test_a_connection_is_kept_and_used_again(stage: Stage) -> None:
    """Calls one after the other share a connection."""
    server = await stage.server(repeating(OK))
    sender = stage.sender()
    for _ in range(5):
        assert isinstance(await sender.send(request(server.url)), Answer)
    assert (server.connections, len(server.requests)) == (1, 5)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok-and-noise",
    ],
)
async def test_a_spent_connection_is_not_used_again(stage: Stage, answer: bytes) -> None:
    """Where the peer closes, or says more than it should, the next call gets a connection of its own."""
    server = await stage.server(answering(answer))
    sender = stage.sender()
    for _ in range(2):
        outcome = await sender.send(request(server.url))
        assert isinstance(outcome, Answer)
        assert outcome.body == b"ok"
    assert server.connections == 2


async def test_a_large_body_both_ways(stage: Stage) -> None:
    """A request of megabytes arrives whole; an answer of 100 MiB is cut at the limit and read no further."""
    sent = 0

    async def handle(peer: Peer) -> None:
        nonlocal sent
        await peer.read()
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n")
        for _ in range(1600):
            await peer.say(b"x" * 65_536)
            sent += 65_536

    server = await stage.server(handle, limit=1 << 16)
    outcome = await stage.sender(response_bytes=100_000).send(request(server.url, body=b"y" * 3_000_000))
    assert isinstance(outcome, Answer)
    assert (outcome.status, outcome.body, outcome.truncated) == (200, b"x" * 100_000, True)
    assert server.requests[0].endswith(b"y" * 3_000_000)
    await server.ended.wait()
    assert sent < 50_000_000


async def test_service_targets(stage: Stage) -> None:
    """A static service may be on loopback though the policy refuses it; as http the same address may not."""
    server = await stage.server(repeating(OK))
    sender = stage.sender(
        policy=EgressPolicy(allow=[], deny=[]),
        directory=StaticDirectory(addresses={"oa": f"{server.url}/base", "meta": "http://169.254.169.254"}),
        owner_url=server.url,
    )
    outcome = await sender.send(request("service://oa/x?y=1"))
    assert isinstance(outcome, Answer)
    assert outcome.url == f"{server.url}/base/x?y=1"
    assert isinstance(await sender.send(request("service:/own")), Answer)
    assert [head_of(raw)[""] for raw in server.requests] == [
        "POST /base/x?y=1 HTTP/1.1",
        "POST /own HTTP/1.1",
    ]
    direct = await sender.send(request(f"{server.url}/x"))  # a pooled connection must not be a way around
    assert isinstance(direct, Fault)
    assert direct.kind is FaultKind.EGRESS
    metadata = await sender.send(request("service://meta/x"))
    assert isinstance(metadata, Fault)
    assert metadata.kind is FaultKind.EGRESS
    unknown = await sender.send(request("service://nobody/x"))
    assert isinstance(unknown, Fault)
    assert unknown.kind is FaultKind.NO_INSTANCE
    assert "services.static" in unknown.message


async def test_names_connect_to_the_judged_address_alone(stage: Stage) -> None:
    """One refused address refuses the name; one that turns is judged anew (SPEC section 9)."""
    server = await stage.server(repeating(OK))
    resolver = TableResolver(
        {"mixed.test": [["127.0.0.1", "10.0.0.1"]], "turns.test": [["127.0.0.1"], ["10.0.0.1"]]}
    )
    sender = stage.sender(resolver=resolver, idle_seconds=0.0)
    mixed = await sender.send(request(f"http://mixed.test:{server.port}/"))
    assert isinstance(mixed, Fault)
    assert mixed.kind is FaultKind.EGRESS
    assert isinstance(await sender.send(request(f"http://turns.test:{server.port}/")), Answer)
    assert head_of(server.requests[0])["host"] == f"turns.test:{server.port}"
    turned = await sender.send(request(f"http://turns.test:{server.port}/"))
    assert isinstance(turned, Fault)
    assert turned.kind is FaultKind.EGRESS
    assert resolver.asked == ["mixed.test", "turns.test", "turns.test"]


async def test_the_next_address_is_tried(stage: Stage) -> None:
    """Where a name's first address does not answer, the next one is tried."""
    server = await stage.server(repeating(OK))
    sender = stage.sender(resolver=TableResolver({"two.test": [["127.0.0.9", "127.0.0.1"]]}))
    assert isinstance(await sender.send(request(f"http://two.test:{server.port}/")), Answer)


async def test_the_machines_own_resolver(stage: Stage) -> None:
    """`localhost` is looked up as the machine does."""
    server = await stage.server(repeating(OK))
    policy = EgressPolicy(allow=["127.0.0.0/8", "::1"], deny=[])
    outcome = await stage.sender(policy=policy).send(request(f"http://localhost:{server.port}/"))
    assert isinstance(outcome, Answer)


async def test_an_unknown_name_is_a_failed_connection(stage: Stage) -> None:
    """A name without an address is `connect`, also when the answer is empty (SPEC section 9)."""
    sender = stage.sender(resolver=TableResolver({"empty.test": [[]]}))
    for host in ("empty.test", "missing.test"):
        outcome = await sender.send(request(f"http://{host}/hush"))
        assert isinstance(outcome, Fault)
        assert outcome.kind is FaultKind.CONNECT
        assert host in outcome.message
        assert "hush" not in outcome.message


async def test_system_functions(stage: Stage) -> None:
    """`system://NAME` runs a function of this process; one that fails or is not there is a Fault."""

    async def clean() -> Answer:
        return Answer(200, body=b'{"removed":3}')

    async def broken() -> Answer:
        raise KeyError("table")

    sender = stage.sender(system={"clean": clean, "broken": broken})
    done = await sender.send(request("system://clean"))
    assert isinstance(done, Answer)
    assert (done.body, done.url) == (b'{"removed":3}', "system://clean")
    failed = await sender.send(request("system://broken"))
    assert isinstance(failed, Fault)
    assert failed.kind is FaultKind.CONNECT
    assert "system://broken" in failed.message
    missing = await sender.send(request("system://other"))
    assert isinstance(missing, Fault)
    assert missing.kind is FaultKind.NO_INSTANCE


async def test_a_request_that_may_not_go_leaves_nothing(stage: Stage) -> None:
    """It is asked when the connection is there, new or kept; the connection serves the next one."""
    server = await stage.server(repeating(OK))
    sender = stage.sender()
    for _ in range(2):
        with pytest.raises(NotSent):
            await sender.send(request(server.url), lambda: False)
    assert (server.requests, server.connections) == ([], 1)
    assert isinstance(await sender.send(request(server.url), lambda: True), Answer)
    with pytest.raises(NotSent):
        await sender.send(request(server.url), lambda: False)
    assert (len(server.requests), server.connections) == (1, 1)


async def test_who_may_go_is_asked_after_the_wait_for_a_connection(stage: Stage) -> None:
    """What stood still while it waited in line must not leave on an answer from before."""
    server = await stage.server(repeating(OK))
    sender = stage.sender(connections=1)
    asked: list[int] = []

    def may_go() -> bool:
        asked.append(server.connections)
        return True

    answers = await asyncio.gather(*(sender.send(request(server.url), may_go) for _ in range(3)))
    assert all(isinstance(answer, Answer) for answer in answers)
    assert asked == [1, 1, 1]


async def test_a_system_function_may_stay(stage: Stage) -> None:
    """The same for what runs in this process."""
    called: list[bool] = []

    async def function() -> Answer:
        called.append(True)
        return Answer(200)

    with pytest.raises(NotSent):
        await stage.sender(system={"one": function}).send(request("system://one"), lambda: False)
    assert called == []
