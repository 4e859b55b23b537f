"""Notifications through the client (SPEC section 16)."""

import pytest

from client_sdk import Client
from client_sdk.errors import Absent, Conflict
from tests.wire.service import definition


async def test_a_notification_is_listed_sent_again_and_given_up(client: Client) -> None:
    """One that nobody takes waits for its next try; after that it is not pending any more."""
    told = [{"url": "service://nobody/told", "guarantee": "outbox", "stateEquals": "finalSucceed"}]
    await client.jobs.create(definition(notification=told), job_id="one")
    await client.wait_for(await client.jobs.trigger("one"), timeout=20)
    (found,) = [one async for one in client.deliveries.list(job_id="one", event="finalSucceed")]
    assert (found.job_id, found.state) == ("one", "pending")
    assert (await client.deliveries.resend(found)).delivery_id == found.delivery_id
    await client.deliveries.dismiss(found.delivery_id)
    with pytest.raises(Conflict):
        await client.deliveries.dismiss(found)
    with pytest.raises(Absent):
        await client.deliveries.resend("none")
