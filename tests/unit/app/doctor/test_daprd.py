"""daprd: what its own metadata say, and that nothing answers."""

from contextlib import AsyncExitStack
from typing import Any

from scheduler_service.app.doctor.daprd import examine_daprd, judge
from scheduler_service.hosts.dapr.sidecar import ACTOR_TYPE
from tests.rows import each_row
from tests.unit.app.doctor.subjects import states, subject
from tests.unit.transport.servers import Stage, repeating

GOOD: dict[str, Any] = {
    "id": "scheduler",
    "runtimeVersion": "1.18.3",
    "actorRuntime": {
        "placement": "placement: connected",
        "hostReady": True,
        "activeActors": [{"type": ACTOR_TYPE}],
    },
    "scheduler": {"connected_addresses": ["127.0.0.1:1"]},
    "components": [{"name": "s", "type": "state.redis", "capabilities": ["ETAG", "ACTOR"]}],
}


@each_row(
    ("change", "check"),
    [
        ({}, ""),
        ({"runtimeVersion": "1.17.0"}, "version"),
        ({"actorRuntime": GOOD["actorRuntime"] | {"placement": ""}}, "placement"),
        ({"actorRuntime": GOOD["actorRuntime"] | {"hostReady": False}}, "actors"),
        ({"scheduler": {"connected_addresses": []}}, "scheduler service"),
        ({"components": []}, "actor store"),
    ],
)
def test_what_is_missing_is_failed(change: dict[str, Any], check: str) -> None:
    """That alone."""
    found = states(judge("http://127.0.0.1:3500", 204, GOOD | change))
    assert [name for name, state in found.items() if state == "failed"] == ([check] if check else [])


def test_components_that_are_not_there_are_failed() -> None:
    """By daprd's own health."""
    assert states(judge("http://127.0.0.1:3500", 500, GOOD))["health"] == "failed"


async def test_a_token_that_daprd_refuses_is_named() -> None:
    """And the right one is shown to it."""
    async with AsyncExitStack() as stack:
        refusal = b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n"
        server = await Stage(stack).server(repeating(refusal))
        asked = subject(is_node=True, dapr__http_port=server.port, dapr__api_token="sesame")
        assert states(await examine_daprd(asked)) == {"token": "failed"}
        assert all(b"dapr-api-token: sesame\r\n" in sent for sent in server.requests)


async def test_nothing_answers() -> None:
    """And nothing is asked where the service is no node."""
    assert states(await examine_daprd(subject(is_node=True, dapr__http_port=1))) == {"answer": "failed"}
    assert await examine_daprd(subject()) == []
