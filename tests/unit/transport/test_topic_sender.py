"""Notifications that are published to a topic, as daprd sees them (SPEC sections 7, 9)."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from scheduler_service.domain.wire import Answer, FaultKind, OutboundRequest
from scheduler_service.ports.sending import NotSent
from scheduler_service.transport.topic_sender import TopicSender
from tests.unit.transport.servers import Stage, repeating

TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"
NAMED = (("Content-Type", "application/json"), ("webhook-id", "id-1"))


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """Servers and senders of one test."""
    async with AsyncExitStack() as stack:
        yield Stage(stack)


def behind(stage: Stage, port: int, token: str | None = None) -> TopicSender:
    """A sender whose sidecar is there."""
    return TopicSender(sender=stage.sender(), http_port=port, token=token)


async def test_a_notification_is_published_as_an_event(stage: Stage) -> None:
    """With the `webhook-id` as its id, its body as data, and the token of the sidecar's API."""
    daprd = await stage.server(repeating(TAKEN))
    sender = behind(stage, daprd.port, "sesame")
    request = OutboundRequest("POST", "topic://events/jobs/ended", NAMED, b'{"event":"succeeded"}')
    outcome = await sender.send(request)
    assert (outcome.status, outcome.url) == (204, "topic://events/jobs/ended")
    head, _, body = daprd.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1.0/publish/events/jobs/ended HTTP/1.1\r\n")
    assert b"\r\nContent-Type: application/cloudevents+json\r\n" in head
    assert b"\r\ndapr-api-token: sesame" in head
    assert json.loads(body) == {
        "specversion": "1.0",
        "id": "id-1",
        "source": "punctual",
        "type": "punctual.notification",
        "datacontenttype": "application/json",
        "data": {"event": "succeeded"},
    }
    await sender.close()


async def test_what_is_no_json_is_text(stage: Stage) -> None:
    """As its content type says, or where it only claims to be JSON."""
    daprd = await stage.server(repeating(TAKEN))
    sender = behind(stage, daprd.port)
    for kind in ("text/csv", "application/json"):
        await sender.send(OutboundRequest("POST", "topic://e/t", (("content-type", kind),), b"a,b"))
    events = [json.loads(one.partition(b"\r\n\r\n")[2]) for one in daprd.requests]
    assert [(one["datacontenttype"], one["data"]) for one in events] == [
        ("text/csv", "a,b"),
        ("text/plain", "a,b"),
    ]
    await sender.close()


@pytest.mark.parametrize(
    "url",
    [
        "topic://e",
        "topic://../state/x",
        "topic://e/../state/x",
        "topic://e/%2e%2E/x",
        "topic://e/x?y",
        "topic://e/x y",
    ],
)
async def test_no_value_leads_to_another_route_of_the_sidecar(stage: Stage, url: str) -> None:
    """Not even one that a template gave."""
    daprd = await stage.server(repeating(TAKEN))
    sender = behind(stage, daprd.port)
    outcome = await sender.send(OutboundRequest("POST", url, NAMED, b"{}"))
    assert outcome.kind is FaultKind.EGRESS
    assert daprd.requests == []
    await sender.close()


async def test_without_a_sidecar_it_is_a_fault(stage: Stage) -> None:
    """And the delivery is tried again; what may not go does not."""
    sender = behind(stage, 1)
    request = OutboundRequest("POST", "topic://e/t", NAMED, b"{}")
    outcome = await sender.send(request)
    assert outcome.kind is FaultKind.CONNECT
    with pytest.raises(NotSent):
        await sender.send(request, lambda: False)
    await sender.close()
    # To the sender below
    target = await stage.server(repeating(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
    sender = behind(stage, 1)
    assert isinstance(await sender.send(OutboundRequest("GET", f"{target.url}/x", ())), Answer)
    assert sender.open_calls() != {}
    await sender.close()
