"""Names in paths: what nothing can be called is refused before anything is sent."""

from collections.abc import Callable
from typing import Any

import pytest

from client_sdk.client.deliveries import Deliveries
from client_sdk.client.executions import Executions
from client_sdk.client.queues import Queues
from client_sdk.client.services import Services
from client_sdk.models import Completion
from tests.rows import each_row
from tests.unit.client_sdk.client.lossy_connection import Line
from tests.wire.service import definition

pytestmark = pytest.mark.anyio
DONE = Completion(status="succeed")

CALLS: dict[str, Callable[[Line, Any], Any]] = {
    "job_id": lambda line, name: line.jobs.get(name),
    "job_id of destroy": lambda line, name: line.jobs.destroy(name),
    "job_id of trigger": lambda line, name: line.jobs.trigger(name),
    "job_id of update": lambda line, name: line.jobs.update(name, definition()),
    "execution": lambda line, name: Executions(line.connection).get(name),
    "execution of cancel": lambda line, name: Executions(line.connection).cancel(name),
    "execution of wait_for": lambda line, name: Executions(line.connection).wait_for(name),
    "delivery": lambda line, name: Deliveries(line.connection).resend(name),
    "name": lambda line, name: Queues(line.connection).get(name),
    "name of a claim": lambda line, name: Queues(line.connection).claim(name, instance_id="i"),
    "lease": lambda line, name: Queues(line.connection).renew(name),
    "lease of complete": lambda line, name: Queues(line.connection).complete(name, DONE),
    "name of a service": lambda line, name: Services(line.connection).get(name),
    "instance_id": lambda line, name: Services(line.connection).heartbeat("s", name),
}


@each_row("name", ["", ".", "..", "a b", "a\n", "é", "x" * 257, "../a", "a%2fb", "a?b#"])
@each_row("call", CALLS)
async def test_a_name_that_nothing_can_have_is_refused_at_once(call: str, name: str) -> None:
    """With the argument, its value and the form; nothing is sent."""
    line = Line(None)
    with pytest.raises(ValueError, match="; use ") as caught:
        await CALLS[call](line, name)
    assert str(caught.value).startswith(f"{call.split()[0]} {name[:140]!r} is no ")
    assert line.line.sent == []


@each_row("name", [None, 7, b"a"])
@each_row("call", CALLS)
async def test_a_name_of_another_type_is_refused_at_once(call: str, name: object) -> None:
    """`TypeError`, which names the argument and the type that was given."""
    line = Line(None)
    with pytest.raises(TypeError, match=f"^{call.split()[0]} is of type {type(name).__name__}, not the text"):
        await CALLS[call](line, name)
    assert line.line.sent == []


@each_row("name", ["../settings", "a/b", "?x", "-a"])
async def test_a_name_leads_to_no_other_route(name: str) -> None:
    """Slashes and dots do not leave the path of jobs, or that of queues."""
    line = Line(None)
    with pytest.raises(ValueError, match="is no id of a job"):
        await line.jobs.get(name)
    with pytest.raises(ValueError, match="is no name of a queue"):
        await anext(Queues(line.connection).held(name))
    assert line.line.sent == []


async def test_parameters_that_are_no_object_are_refused() -> None:
    """A body of `trigger` is a mapping."""
    line = Line(None)
    with pytest.raises(TypeError, match=r"^params is of type list: give a mapping"):
        await line.jobs.trigger("a", [1])  # type: ignore[arg-type]
    assert line.line.sent == []
