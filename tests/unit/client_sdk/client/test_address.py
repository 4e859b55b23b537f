"""Addresses of a service: which are taken, and which are refused before anything is sent."""

import pytest

from client_sdk import Client
from client_sdk.client import BlockingClient
from client_sdk.client.address import read_url
from client_sdk.errors import Unreachable
from tests.rows import each_row
from tests.unit.client_sdk.client.lossy_connection import Line

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


@pytest.mark.anyio
@pytest.mark.parametrize("inner", [OverflowError("port must be 0-65535."), OSError("no route")])
async def test_several_failures_at_once_are_one_error(inner: Exception) -> None:
    """A connection tries several addresses at once: what they raise together is `Unreachable`."""
    line = Line(None, ExceptionGroup("unhandled errors", [inner]), "before", retries=0)
    with pytest.raises(Unreachable, match=str(inner)):
        await line.jobs.get("one")
