"""The sidecar: errors of daprd, and contexts of qos 1 in the actor state store."""

from typing import Any

import grpc
import pytest
from dapr.clients.exceptions import DaprInternalError

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.replies import Taken
from scheduler_service.domain.turn_events import FeedbackArrived
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.hosts.dapr.cluster_jobs import LONGEST_TURN_MS
from scheduler_service.hosts.dapr.sidecar import ActorContexts, ActorMissing, Sidecar
from scheduler_service.persistence.contexts.external_contexts import ContextKeeper
from scheduler_service.ports.errors import StoreUncertain
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.hosts.house import asynchronous

pytestmark = pytest.mark.anyio


class Unreachable:
    """An actor client whose daprd is gone."""

    async def invoke_method(self, *_: object, **__: object) -> bytes:
        """Fails as gRPC does."""
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, details="refused")


async def test_an_error_of_grpc_is_a_store_error_that_names_its_code() -> None:
    """Nothing above the sidecar meets an error of gRPC: whether the turn was taken is uncertain."""
    client: Any = Unreachable()
    with pytest.raises(StoreUncertain, match=r"UNAVAILABLE: refused; is daprd running\?"):
        await Sidecar(client=client).invoke("job", b"")


class Slow:
    """An actor client whose state store hangs: it keeps for how long it was to wait."""

    waited = 0.0

    async def get_state(self, *_: object, seconds: float) -> bytes:
        self.waited = seconds
        raise TimeoutError


async def test_a_state_store_that_hangs_leaves_a_taken_over_job_its_turn() -> None:
    """The list of what other nodes left is waited for within the 2 s of a turn."""
    slow: Any = Slow()
    keeper = ContextKeeper(contexts=ActorContexts(sidecar=Sidecar(client=slow)), log=_ignore)
    await keeper.look("job")
    assert 0 < slow.waited * SECOND < LONGEST_TURN_MS / 4


def _ignore(event: str, /, **keys: object) -> None:
    """Logs nothing."""


KEY = b"k" * 32


async def begin(cluster: DaprHouse, **members: object) -> None:
    """An execution of qos 1 waits for feedback; what its step answered is a part of its context."""
    await cluster.create(**asynchronous(qos=1, timeoutSeconds=600, **members))
    await cluster.trigger()
    await cluster.settle()


def report(status: str) -> FeedbackArrived:
    return FeedbackArrived(1, feedback_token(KEY, "uid1", 1), {"status": status})


async def end(cluster: DaprHouse) -> None:
    assert await cluster.deliver(report("succeed")) == Taken()
    await cluster.settle()


async def test_the_version_that_counts_lies_there(cluster: DaprHouse) -> None:
    """And the one before it, until the next is written, and the list; nothing once it has ended."""
    await begin(cluster)
    for _ in range(3):
        assert await cluster.deliver(report("")) == Taken()
        await cluster.settle()
        assert len(cluster.world.state) <= 3
    await end(cluster)
    await cluster.advance(1_000)
    assert cluster.executions()[1] is State.SUCCEEDED
    assert cluster.world.state == {}


async def test_a_sidecar_that_does_not_write_costs_no_turn(cluster: DaprHouse) -> None:
    """The contexts are in the row meanwhile, and another node goes on from there."""

    def refuse(node: str, actor_id: str) -> None:
        raise DaprInternalError("the state store is away")

    cluster.world.before_save = refuse
    await begin(cluster)
    assert cluster.world.state == {}
    assert [event for event, _ in cluster.log].count("contexts_not_written") == 1
    await cluster.crash()
    await cluster.advance(20_000)
    await end(cluster)
    assert cluster.executions() == {1: State.SUCCEEDED}


async def test_an_actor_that_is_not_here_keeps_no_other_job_from_writing(cluster: DaprHouse) -> None:
    """It is refused for itself alone, and its contexts are in its row."""

    def refuse(node: str, actor_id: str) -> None:
        if actor_id == "job":
            raise ActorMissing("actor instance is missing")

    cluster.world.before_save = refuse
    await begin(cluster)
    await cluster.create("other", **asynchronous(qos=1, timeoutSeconds=600))
    await cluster.trigger("other")
    await cluster.settle()
    assert {name.partition("||")[0] for name in cluster.world.state} == {"other"}
