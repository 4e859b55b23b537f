"""What the API takes from those who work on a queue (SPEC section 13)."""

import httpx
import pytest

from scheduler_service.api.queues import RESERVED
from scheduler_service.engine.retry import NEVER_RETRIED
from scheduler_service.engine.warnings import CODES
from tests.unit.api.world import pointers

pytestmark = pytest.mark.anyio


def test_no_worker_can_say_what_is_never_retried() -> None:
    """Codes that policies do not match, or `*` does not, are Punctual's alone (SPEC section 6)."""
    assert NEVER_RETRIED | {"egress"} <= RESERVED


def test_no_worker_can_say_what_it_cannot_know() -> None:
    """Of the codes of SPEC section 5 only the limits of a call are its own to report."""
    own = CODES - RESERVED
    assert own == {"timeout", "response_too_large"}


@pytest.mark.parametrize("path", ["/queues/work/claim", "/leases/any/renew", "/leases/any/complete"])
async def test_where_no_queues_are_open_it_is_said(client: httpx.AsyncClient, path: str) -> None:
    """503 `not_available`, and what to do instead."""
    answer = await client.post(path, json={"instanceId": "w", "status": "succeed"})
    assert (answer.status_code, pointers(answer)) == (503, [("", "not_available")])
    assert "ask a service" in answer.json()["detail"]
