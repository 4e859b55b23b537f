"""Names in paths: what nothing can be called is refused before anything is sent."""

from collections.abc import Callable
from typing import Any

import pytest

from client_sdk import Client
from client_sdk.client import BlockingClient
from client_sdk.client.connection import read_url
from client_sdk.client.executions import Deliveries, Executions
from client_sdk.client.queues import Queues
from client_sdk.client.services import Services
from client_sdk.models import Completion
from tests.rows import each_row
from tests.unit.client_sdk.lines import Line
from tests.wire.service import definition

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
    "name of a list": lambda line, name: anext(Queues(line.connection).held(name)),
    "name of a claim": lambda line, name: Queues(line.connection).claim(name, instance_id="i"),
    "lease": lambda line, name: Queues(line.connection).renew(name),
    "lease of complete": lambda line, name: Queues(line.connection).complete(name, DONE),
    "name of a service": lambda line, name: Services(line.connection).get(name),
    "instance_id": lambda line, name: Services(line.connection).heartbeat("s", name),
}


@each_row("name", ["", ".", "..", "a b", "a\n", "é", "x" * 257, "../a", "a/b", "a%2fb", "?x", "a?b#"])
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


WRONG = [
    "nowhere",
    "",
    "ftp://x",
    "http://",
    "http://:80",
    "http://h:x",
    "http://h:0",
    "http://h:-1",
    "http://127.0.0.1:65536",
    "http://127.0.0.1:99999",
    "http://a b",
    "http://a%20b:80",
    "http:// a",
    "http://a..b",
    "http://" + "a" * 64,
    "http://" + "a." * 126 + "ab",
    "http://[::1",
]


@each_row("url", WRONG)
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    """A slip of the program, told as Python tells it: ValueError, which names the value."""
    for make in (Client, BlockingClient):
        with pytest.raises(ValueError, match="not the address of a service: write http") as caught:
            make(url)
        assert repr(url) in str(caught.value)


@each_row(
    ("url", "host", "port"),
    [
        ("http://127.0.0.1:65535", "127.0.0.1", 65_535),
        ("https://scheduler.example/base", "scheduler.example", None),
        ("http://my_scheduler-1:1", "my_scheduler-1", 1),
        ("http://[::1]:8000", "::1", 8000),
        ("http://bücher.example.", "bücher.example.", None),
        ("http://user:secret@h:80", "h", None),
    ],
)
def test_an_address_of_each_form_is_taken(url: str, host: str, port: int | None) -> None:
    """Names, also of containers and international ones, and addresses of both kinds."""
    assert (read_url(url).host, read_url(url).port) == (host, port)
