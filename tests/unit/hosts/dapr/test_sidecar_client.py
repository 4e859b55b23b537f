"""The calls of the sidecar as they are sent, and what daprd's refusals become."""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty

from scheduler_service.hosts.dapr.sidecar import ActorMissing, Sidecar, StateNotWritten
from scheduler_service.hosts.dapr.sidecar_client import SidecarClient
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from tests.unit.transport.servers import Handler, Peer, Server, Stage, answering, repeating

pytestmark = pytest.mark.anyio
PATIENCE_MS = 20_000
"""Longer than a call takes on a slow machine."""
MISSING = b'{"errorCode":"ERR_ACTOR_INSTANCE_MISSING","message":"actor instance is missing"}'


def answer(status: int, body: bytes = b"") -> bytes:
    """An answer of daprd."""
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


class Bench:
    """A server in daprd's place, and the sidecar that talks to it."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._stage = Stage(stack)

    async def set(self, handler: Handler) -> tuple[Sidecar, Server]:
        server = await self._stage.server(handler)
        client = SidecarClient(http_port=server.port, grpc_port=server.port)
        self._stack.push_async_callback(client.close)
        return Sidecar(client=client), server


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        yield Bench(stack)


async def test_without_a_connection_nothing_was_done() -> None:
    """The sidecar of this node is dead: whoever asks is told so at once, and may ask another node."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        client = SidecarClient(http_port=port, grpc_port=port)
        with pytest.raises(StoreUnavailable, match="ask another node") as caught:
            await Sidecar(client=client).invoke("job", b"")
        await client.close()
    assert caught.value.is_public


async def test_each_call_has_its_path(bench: Bench) -> None:
    """The id of an actor is one part of it, whatever signs it has; a state is JSON, a message is not."""
    sidecar, server = await bench.set(
        answering(answer(204), answer(200, b'"AAE="'), answer(204), answer(204))
    )
    await sidecar.write("tenant|job/1", {"state": b"\x00\x01"}, (), PATIENCE_MS)
    assert await sidecar.get("job") == b"\x00\x01"
    assert await sidecar.get("job") == b""
    await sidecar.write("job", {}, ("state",), PATIENCE_MS)
    heads, bodies = zip(*(one.split(b"\r\n\r\n") for one in server.requests), strict=True)
    actors = b"/v1.0/actors/job_scheduler/"
    assert [head.split(b" HTTP/1.1\r\n")[0] for head in heads] == [
        b"POST " + actors + b"tenant%7Cjob%2F1/state",
        b"GET " + actors + b"job/state/state",
        b"GET " + actors + b"job/state/state",
        b"POST " + actors + b"job/state",
    ]
    assert bodies == (
        b'[{"operation":"upsert","request":{"key":"state","value":"AAE="}}]',
        b"",
        b"",
        b'[{"operation":"delete","request":{"key":"state"}}]',
    )


async def test_a_turn_is_a_put_of_its_message(bench: Bench) -> None:
    """Answer and message are bytes."""
    sidecar, server = await bench.set(repeating(answer(200, b"\xff")))
    assert await sidecar.invoke("job", b"\x00") == b"\xff"
    assert server.requests[0].startswith(b"PUT /v1.0/actors/job_scheduler/job/method/take HTTP/1.1\r\n")
    assert server.requests[0].endswith(b"\r\n\r\n\x00")


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (400, b'{"errorCode":"ERR_BUSY","message":"later"}', "ERR_BUSY: later"),
        (500, b"<html>", "status 500"),
        (302, b"", "status 302"),
        (500, b"[]", "status 500"),
    ],
)
async def test_a_refusal_is_a_store_error_that_says_why(
    bench: Bench, status: int, body: bytes, reason: str
) -> None:
    """What was read is unavailable, what was written is uncertain."""
    sidecar, _ = await bench.set(repeating(answer(status, body)))
    with pytest.raises(StoreUnavailable, match=f"{reason}; is daprd running"):
        await sidecar.get("job")
    with pytest.raises(StoreUncertain, match=f"{reason}; is daprd running"):
        await sidecar.write("job", {"state": b"x"}, (), PATIENCE_MS)
    with pytest.raises(StoreUncertain, match=f"{reason}; is daprd running"):
        await sidecar.invoke("job", b"x")


async def test_a_state_of_an_actor_that_is_not_here_is_certainly_not_written(bench: Bench) -> None:
    """As the code of its refusal says."""
    sidecar, _ = await bench.set(repeating(answer(400, MISSING)))
    with pytest.raises(
        StateNotWritten, match="ERR_ACTOR_INSTANCE_MISSING: actor instance is missing"
    ) as raised:
        await sidecar.write("job", {"state": b"x"}, (), PATIENCE_MS)
    assert isinstance(raised.value.__cause__, ActorMissing)


async def test_a_daprd_that_hangs_is_given_up(bench: Bench) -> None:
    """After the time of the call: over connections that were used before, so that nothing else takes time."""
    sidecar, _ = await bench.set(answering(answer(204)))
    await sidecar.write("job", {"state": b"x"}, (), PATIENCE_MS)
    await sidecar.invoke("job", b"x")
    with pytest.raises(StoreUncertain, match=r"did not write the state of an actor within 0\.1 s"):
        await sidecar.write("job", {"state": b"x"}, (), 100)
    with pytest.raises(StoreUncertain, match=r"did not reach an actor within 0\.1 s"):
        await sidecar.invoke("job", b"x", timeout_seconds=0.1)


async def test_a_connection_that_breaks_is_uncertain(bench: Bench) -> None:
    """The call may have been taken."""

    sidecar, server = await bench.set(_break_off)
    with pytest.raises(StoreUncertain, match="closed the connection before it answered"):
        await sidecar.write("job", {"state": b"x"}, (), PATIENCE_MS)
    assert len(server.requests) == 1


async def _break_off(peer: Peer) -> None:
    await peer.read()
    peer.reset()


async def test_the_token_goes_with_every_call(bench: Bench) -> None:
    """Over HTTP as a header, over gRPC as metadata (`DAPR_API_TOKEN` of daprd)."""
    _, server = await bench.set(repeating(answer(200)))
    metadata: list[dict[str, Any]] = []
    async with AsyncExitStack() as stack:
        grpc_port = await _serve_grpc(stack, metadata)
        client = SidecarClient(http_port=server.port, grpc_port=grpc_port, token="sesame")
        stack.push_async_callback(client.close)
        sidecar = Sidecar(client=client)
        await sidecar.invoke("job", b"x")
        await sidecar.get("job")
        await sidecar.write("job", {"state": b"x"}, (), PATIENCE_MS)
        await sidecar.write("job", {}, ("state",), PATIENCE_MS)
        await sidecar.remind("job", 1_000)
        await sidecar.forget_reminder("job")
    assert len(server.requests) == 4
    assert all(b"\r\ndapr-api-token: sesame\r\n" in request for request in server.requests)
    assert [one.get("dapr-api-token") for one in metadata] == ["sesame", "sesame"]


async def test_without_a_token_none_is_sent(bench: Bench) -> None:
    """An empty one would be refused by a daprd that wants one, and mean nothing to others."""
    sidecar, server = await bench.set(repeating(answer(200)))
    await sidecar.get("job")
    assert b"dapr-api-token" not in server.requests[0]


async def _serve_grpc(stack: AsyncExitStack, metadata: list[dict[str, Any]]) -> int:
    """A server that notes the metadata of each call, and answers with nothing; its port."""

    class Handlers(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            metadata.append(dict(details.invocation_metadata))
            return grpc.unary_unary_rpc_method_handler(_take, None, Empty.SerializeToString)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    stack.push_async_callback(server.stop, None)
    return port


async def _take(request: bytes, context: object) -> Empty:
    return Empty()
