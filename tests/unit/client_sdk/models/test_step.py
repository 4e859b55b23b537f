"""The methods of requests (SPEC section 4)."""

from typing import Any

import pytest

from client_sdk.models import ModelError, parse_definition
from tests.rows import each_row

PLAIN: dict[str, Any] = {
    "jobName": "report",
    "creator": "001",
    "creatorName": "ops",
    "request": [{"url": "http://target.example/run"}],
}
URL = "http://target.example/x"


@each_row("method", ["CONNECT", "connect"])
@each_row(
    ("place", "pointer"),
    [
        ("request", "/request/0/method"),
        ("notification", "/notification/0/method"),
        ("cancelUrl", "/cancelUrl/method"),
    ],
)
def test_a_tunnel_is_no_request(method: str, place: str, pointer: str) -> None:
    """CONNECT opens a tunnel and asks nothing: refused when the job is created."""
    step = {"url": URL, "method": method}
    with pytest.raises(ModelError) as caught:
        parse_definition(PLAIN | {place: step if place == "cancelUrl" else [step]})
    assert [(one.pointer, one.code) for one in caught.value.problems] == [(pointer, "choice")]
    assert caught.value.problems[0].message.startswith("method must not be CONNECT")


@each_row("method", ["GET", "HEAD", "OPTIONS", "TRACE", "PATCH", "PROPFIND", "CONNECTED"])
def test_any_other_method_is_sent(method: str) -> None:
    """Any HTTP method (SPEC section 4)."""
    assert parse_definition(PLAIN | {"request": [{"url": URL, "method": method}]}).request[0].method == method
