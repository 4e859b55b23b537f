"""Notifications over the API: sent again or given up (SPEC section 7)."""

from types import SimpleNamespace
from typing import Any

import httpx

from scheduler_service.api.query_filters import delivery_query
from scheduler_service.security.callers import Caller, Role


async def test_deliveries_are_sent_again_or_given_up(client: httpx.AsyncClient) -> None:
    """200 while it waits, 409 when it is done, 404 when it never was."""
    for verb in ("resend", "dismiss"):
        assert (await client.post(f"/deliveries/waiting/{verb}")).status_code == 200
        assert (await client.post(f"/deliveries/done/{verb}")).status_code == 409
        assert (await client.post(f"/deliveries/never/{verb}")).status_code == 404
    assert (await client.get("/deliveries?state=outbox")).json()["data"] == {"items": [], "nextCursor": None}


async def test_what_cannot_be_sent_again_is_told_why(client: httpx.AsyncClient) -> None:
    """The words of a 409 fit each state; another node may have what this one has not."""
    for delivery, said in (
        ("done", "is delivered, and not pending any more"),
        ("left", "is pending, and was lost with the process that had it, so it cannot be sent again"),
        ("spent", "is failed, and what was to be sent is not kept any more: replay the execution"),
    ):
        answer = await client.post(f"/deliveries/{delivery}/resend")
        assert (answer.status_code, said in answer.json()["detail"]) == (409, True), answer.text
    answer = await client.post("/deliveries/left/dismiss")
    told = "the delivery 'left' is pending, and another node has it: ask that one"
    assert (answer.status_code, answer.json()["detail"]) == (409, told)


async def test_notifications_of_a_job_are_of_the_caller_s_own() -> None:
    """A tenant's jobs have keys of their own: the list asks for the key, as the counts do."""
    filters = {"jobId": "nightly", "state": None, "event": None}
    request: Any = SimpleNamespace(caller=Caller("acme", Role.VIEWER), query=filters)
    assert (await delivery_query(request)).job_id == "acme|nightly"
