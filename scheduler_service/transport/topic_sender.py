"""Publishes notifications to `topic://pubsub/topic` as CloudEvents through the sidecar (SPEC section 9)."""

import asyncio
import re
from collections.abc import Mapping

import msgspec

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.language.urls import read_topic
from scheduler_service.ports.sending import CallingSender, MayGo, NotSent, always
from scheduler_service.transport.errors import TransportError, Unreached
from scheduler_service.transport.sidecar_exchanges import HOST, KeptConnections, show_token

SOURCE, TYPE = "punctual", "punctual.notification"
_JSON = re.compile(r"(?i)application/(?:[\w.+-]+\+)?json\s*(?:;|$)")
PUBLISHED_AT_ONCE = 64
ANSWER_BYTES = 64 << 10


class TopicSender:
    """`ports.Sender` that publishes what is for a topic, and leaves all else to `sender`.

    The event's `id` is the `webhook-id`: equal on every try, so that subscribers can tell a repetition. An
    answer of daprd is that of the request: 204 where the component has taken the event. `token` is that of
    daprd's API. Belongs to the event loop in which it is first used.
    """

    def __init__(self, *, sender: CallingSender, http_port: int, token: str | None) -> None:
        self._sender = sender
        self._connections = KeptConnections(
            port=http_port, most=PUBLISHED_AT_ONCE, response_bytes=ANSWER_BYTES
        )
        self._head = f"Host: {HOST}:{http_port}\r\nContent-Type: application/cloudevents+json\r\n"
        self._head += "".join(f"{name}: {value}\r\n" for name, value in show_token(token))

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The answer, or why there is none. Raises nothing but CancelledError and NotSent."""
        if request.url[:6].lower() != "topic:":
            return await self._sender.send(request, may_go)
        loop = asyncio.get_running_loop()
        topic, began = read_topic(request.url), loop.time()
        if topic is None:
            return Fault(FaultKind.EGRESS, "A topic is topic://PUBSUB/TOPIC, percent-encoded: correct it.", 0)
        if not may_go():
            raise NotSent
        data = self._write(request, f"/v1.0/publish/{topic}")
        try:
            reply = await self._connections.exchange(data, method="POST", seconds=request.timeout / 1000)
        except TransportError as error:
            elapsed = round((loop.time() - began) * 1000)
            return Fault(error.kind, str(error), elapsed, isinstance(error, Unreached))
        elapsed = round((loop.time() - began) * 1000)
        return Answer(reply.status, reply.headers, reply.body, reply.truncated, elapsed, request.url)

    def open_calls(self) -> Mapping[str, Mapping[str, int]]:
        """Those of the sender below it."""
        return self._sender.open_calls()

    async def close(self) -> None:
        """Closes the connections, and the sender below it."""
        await self._connections.close()
        await self._sender.close()

    def _write(self, request: OutboundRequest, path: str) -> bytes:
        event = write_event(request)
        trace = (
            f"traceparent: 00-{request.trace}-{request.span}\r\n" if request.trace and request.span else ""
        )
        head = f"POST {path} HTTP/1.1\r\n{self._head}{trace}Content-Length: {len(event)}\r\n\r\n"
        return head.encode() + event


def write_event(request: OutboundRequest) -> bytes:
    """The CloudEvent (1.0, structured) with the body of a request; what is no JSON is text."""
    headers = {name.lower(): value for name, value in request.headers}
    kind = headers.get("content-type", "application/json")
    body = request.body or b"null"
    data: object = body.decode("utf-8", "replace")
    if _JSON.match(kind):
        try:
            msgspec.json.decode(body)
        except ValueError:
            kind = "text/plain"
        else:
            data = msgspec.Raw(body)
    return msgspec.json.encode(
        {
            "specversion": "1.0",
            "id": headers.get("webhook-id", ""),
            "source": SOURCE,
            "type": TYPE,
            "datacontenttype": kind,
            "data": data,
        }
    )
