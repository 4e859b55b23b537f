"""Notifications of a job without a server (SPEC section 7)."""

import json

import pytest

from client_sdk.lite import LiteJob
from tests.unit.client_sdk.lite.definitions import chain
from tests.wire.target import Reply, Target

pytestmark = pytest.mark.anyio


async def test_notifications_are_tried_again(target: Target) -> None:
    """Beside the executions: leaving the block waits for them."""
    target.answers("/told", 500, 500)
    async with LiteJob(chain(target.url), notification_interval_seconds=0.01) as job:
        target.always("/first", Reply(body={"id": "1", "rows": 1}))
        await job.run({"size": 1})
    told = target.at("/told")
    assert len(told) == 3
    assert len({one.headers["webhook-id"] for one in told}) == 1
    assert json.loads(told[-1].body)["response"]["status"] == "finalSucceed"
