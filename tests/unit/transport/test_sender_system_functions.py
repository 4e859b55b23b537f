"""system://NAME runs a function of this process."""

import pytest

from scheduler_service.domain.moments import Now
from scheduler_service.domain.wire import Answer, Fault, FaultKind
from scheduler_service.ports.sending import NotSent
from tests.manual_clock import ManualClock
from tests.unit.transport.exchanges import request
from tests.unit.transport.servers import Stage


class Counting(ManualClock):
    """Counts how often it is asked."""

    asked = 0

    def now(self) -> Now:
        self.asked += 1
        return super().now()


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


async def test_a_system_function_may_stay(stage: Stage) -> None:
    """The same for what runs in this process."""
    called: list[bool] = []

    async def function() -> Answer:
        called.append(True)
        return Answer(200)

    with pytest.raises(NotSent):
        await stage.sender(system={"one": function}).send(request("system://one"), lambda: False)
    assert called == []


async def test_a_system_function_has_no_deadline_to_tell(stage: Stage) -> None:
    """`X-Scheduling-Deadline` is of requests: the clock is not asked."""

    async def function() -> Answer:
        return Answer(200)

    clock = Counting()
    await stage.sender(system={"one": function}, clock=clock).send(request("system://one"))
    assert clock.asked == 0
