"""Actor state: who may write it, what is read, and how long it lives."""

import pytest

from scheduler_service.hosts.dapr.sidecar import Sidecar, StateNotWritten
from scheduler_service.hosts.dapr.sidecar_client import SidecarClient
from tests.shown import shows
from tests.sidecar.behaviours.bare import Node


@shows("da-00090")
def test_only_an_active_actor_has_its_state_written(node: Node) -> None:
    """Refused with 400 over HTTP; the product knows that nothing is written, and nothing is."""
    reply = node.save("job_scheduler/inactive", {"key": "state", "value": "eA=="})
    assert (reply.status, reply.json["errorCode"]) == (400, "ERR_ACTOR_INSTANCE_MISSING")
    assert reply.json["message"] == "actor instance is missing"

    async def write(client: SidecarClient) -> None:
        await Sidecar(client=client).write("inactive", {"state": b"x"}, (), 2_000)

    with pytest.raises(StateNotWritten, match="actor instance is missing"):
        node.over_grpc(write)
    assert node.ask("GET", "job_scheduler/inactive/state/state").status == 204


@shows("da-00091")
def test_what_is_not_there_is_empty(node: Node) -> None:
    """204 without a body, whether the actor is active or not; the product reads it as no state."""
    assert node.ask("GET", "Plain/empty/state/key")[:2] == (204, b"")
    assert node.ask("PUT", "Plain/empty/method/wake").status == 200
    assert node.ask("GET", "Plain/empty/state/key")[:2] == (204, b"")
    assert node.over_grpc(lambda client: Sidecar(client=client).get("nobody")) == b""


@shows("da-00092")
def test_one_transaction_writes_all_its_keys(node: Node) -> None:
    """Both are read as they were written."""
    assert node.ask("PUT", "Plain/written/method/wake").status == 200
    written = node.save("Plain/written", {"key": "one", "value": {"a": 1}}, {"key": "two", "value": "b"})
    assert written.status == 204
    for key, value in (("one", {"a": 1}), ("two", "b")):
        reply = node.ask("GET", f"Plain/written/state/{key}")
        assert (reply.status, reply.json) == (200, value)


@shows("da-00092")
def test_the_state_of_a_job_is_written_and_removed(node: Node) -> None:
    """The product's own calls on the real store: every byte comes back, and a dropped state is none."""
    assert node.ask("PUT", "job_scheduler/kept/method/wake").status == 200
    state = bytes(range(256)) * 400

    async def work(client: SidecarClient) -> tuple[bytes, bytes]:
        sidecar = Sidecar(client=client)
        await sidecar.write("kept", {"state": state}, (), 2_000)
        kept = await sidecar.get("kept")
        await sidecar.write("kept", {}, ("state",), 2_000)
        return kept, await sidecar.get("kept")

    assert node.over_grpc(work) == (state, b"")
