"""A cluster whose tables lie on a server, in short: with `--long` all of `test_promises` runs on each."""

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from tests.conformance.hosts.houses import DaprHouse

pytestmark = pytest.mark.anyio
FIRST, SECOND, HOOK = (f"http://target.test/{name}" for name in ("first", "second", "hook"))


async def test_an_execution_outlives_its_node_on_each_server(served: DaprHouse) -> None:
    """It goes on with the step that was in flight, and its notification is delivered once."""
    told = {"url": HOOK, "stateEquals": ["finalSucceed"], "guarantee": "outbox"}
    await served.create(qos=1, request=[{"url": FIRST}, {"url": SECOND}], notification=[told])
    served.sender.hold(SECOND)
    await served.trigger()
    await served.settle()
    assert served.sender.urls() == [FIRST, SECOND]
    await served.crash()
    await served.recover()
    assert served.sender.urls() == [SECOND, HOOK]
    assert served.executions() == {1: State.SUCCEEDED}
