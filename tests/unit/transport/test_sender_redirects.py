"""Redirects: only as far as the step says, each hop judged, credentials kept at home (SPEC section 9)."""

from typing import Any

import pytest

from scheduler_service.domain.secret_places import FilledBody, FilledText
from scheduler_service.domain.wire import Answer, FaultKind, OutboundRequest
from scheduler_service.transport.egress_guard import EgressPolicy
from tests.static_directory import StaticDirectory
from tests.unit.transport.servers import OK, Handler, Peer, Stage, answering, repeating

HEADERS = (
    ("Authorization", "Bearer hush"), ("Cookie", "a=b"), ("X-API-Key", "k"), ("Proxy-Authorization", "p"),
    ("Content-Type", "text/plain"), ("Idempotency-Key", "key"),
)  # fmt: skip


def redirecting(location: str, status: int = 302) -> Handler:
    """Redirects what is not for `/end`, which it answers."""

    async def handle(peer: Peer) -> None:
        while True:
            line = (await peer.read()).partition(b"\r\n")[0]
            head = f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 4\r\n\r\nmove"
            await peer.say(OK if b" /end" in line else head.encode("utf-8"))

    return handle


def request(url: str, redirects: int = 3, **changes: Any) -> OutboundRequest:
    given: dict[str, Any] = {"headers": HEADERS, "body": b"data", "timeout": 5000}
    return OutboundRequest("POST", url, redirects=redirects, **(given | changes))


async def test_not_followed_by_default(stage: Stage) -> None:
    """Without `redirects` a 3xx is the answer; so is the one after the last hop that is allowed."""
    server = await stage.server(redirecting("/again"))
    sender = stage.sender()
    for hops in (0, 2):
        outcome = await sender.send(request(server.url, hops))
        assert (outcome.status, outcome.body) == (302, b"move")
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")]
)
async def test_method_and_body(stage: Stage, status: int, method: str) -> None:
    """301 to 303 become GET without a body; 307 and 308 keep both. At home the credentials stay."""
    server = await stage.server(redirecting("/end?x=1", status))
    outcome = await stage.sender().send(request(f"{server.url}/a/b"))
    assert (outcome.status, outcome.url) == (200, f"{server.url}/end?x=1")
    second = server.requests[1]
    assert second.startswith(f"{method} /end?x=1 HTTP/1.1\r\n".encode())
    assert second.endswith(b"data") is (method == "POST")
    assert (b"Content-Type" in second) is (method == "POST")
    assert b"hush" in second
    assert server.connections == 1


@pytest.mark.parametrize("status", [302, 307])
async def test_credentials_stay_at_home(stage: Stage, status: int) -> None:
    """No credential follows to another origin; another port is another origin."""
    other = await stage.server(repeating(OK))
    server = await stage.server(redirecting(f"{other.url}/end", status))
    assert isinstance(await stage.sender().send(request(server.url)), Answer)
    sent = other.requests[0].lower()
    assert not any(name in sent for name in (b"authorization", b"cookie", b"x-api-key"))
    assert b"idempotency-key: key" in sent


@pytest.mark.parametrize(
    "location",
    ["http://10.0.0.1/", "//10.0.0.1/", "http://2130706433/", "file:///etc/passwd", "\\\\127.0.0.1\\x",
     "http://a@b/", "service://oa/x", "http://[::1", "/a\tb", "http://169.254.169.254/", "gopher:x"],
)  # fmt: skip
async def test_each_hop_is_judged(stage: Stage, location: str) -> None:
    """A hop to what the policy refuses, or to what is no plain http(s) URL, is `egress`."""
    server = await stage.server(redirecting(location))
    outcome = await stage.sender().send(request(server.url))
    assert outcome.kind is FaultKind.EGRESS
    assert len(server.requests) == 1


async def test_a_service_is_trusted_at_home_alone(stage: Stage) -> None:
    """A service may redirect within its own address; elsewhere the policy decides."""
    other = await stage.server(repeating(OK))
    home = await stage.server(redirecting("/end"))
    away = await stage.server(redirecting(f"{other.url}/end"))
    sender = stage.sender(
        policy=EgressPolicy(allow=[], deny=[]),
        directory=StaticDirectory(addresses={"home": home.url, "away": away.url}),
    )
    assert isinstance(await sender.send(request("service://home/x")), Answer)
    outcome = await sender.send(request("service://away/x"))
    assert outcome.kind is FaultKind.EGRESS
    assert other.connections == 0


@pytest.mark.parametrize(
    ("location", "path"),
    [
        (b"/end/a b?q=c d", "/end/a%20b?q=c%20d"),
        (b"/end/100%25 x", "/end/100%25%20x"),
        ("/end/订".encode("gbk"), "/end/%B6%A9"),
    ],
)
async def test_location_with_what_no_url_has(stage: Stage, location: bytes, path: str) -> None:
    """Blanks and bytes outside ASCII are percent-encoded as they came; what is encoded stays."""
    head = b"HTTP/1.1 302 X\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n"
    server = await stage.server(answering(head, OK))
    outcome = await stage.sender().send(request(server.url, redirects=1))
    assert outcome.url == server.url + path


@pytest.mark.parametrize("status", [300, 304, 305])
async def test_other_3xx_are_answers(stage: Stage, status: int) -> None:
    """Only 301, 302, 303, 307 and 308 lead on."""
    server = await stage.server(
        repeating(b"HTTP/1.1 %d X\r\nLocation: /end\r\nContent-Length: 0\r\n\r\n" % status)
    )
    outcome = await stage.sender().send(request(server.url))
    assert outcome.status == status


async def test_what_has_a_secret_goes_to_no_other_origin(stage: Stage) -> None:
    """A header of any name is dropped, and a body with one is not sent there: the redirect is the answer."""
    away = await stage.server(repeating(OK))
    headers = (("X-Own", FilledText("hush")), ("X-Plain", "seen"))
    for status, body, followed in (
        (302, FilledBody(b"hush"), True),
        (307, b"data", True),
        (307, FilledBody(b"hush"), False),
    ):
        server = await stage.server(redirecting(f"{away.url}/end", status))
        outcome = await stage.sender().send(request(server.url, headers=headers, body=body))
        assert outcome.status == (200 if followed else status)
    assert len(away.requests) == 2
    for seen in away.requests:
        assert b"seen" in seen
        assert b"hush" not in seen
    home = await stage.server(redirecting("/end", 307))
    await stage.sender().send(request(home.url, headers=headers, body=FilledBody(b"hush")))
    assert home.requests[1].count(b"hush") == 2
