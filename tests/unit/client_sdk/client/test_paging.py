"""Lists, a page at a time (SPEC section 10)."""

import pytest

from client_sdk import Client
from tests.wire.service import definition

pytestmark = pytest.mark.anyio


async def test_lists_are_walked_page_by_page(client: Client) -> None:
    """Every item once, whatever the page's size; filters are the service's."""
    results = await client.jobs.create_many(
        [definition(jobId=f"job-{number:02}", labels={"odd": str(number % 2)}) for number in range(7)]
        + [{"jobId": "bad"}]
    )
    assert [one.status for one in results] == ["created"] * 7 + ["refused"]
    assert [job.job_id async for job in client.jobs.list(page=3)] == [f"job-{n:02}" for n in range(7)]
    odd = client.jobs.list(labels={"odd": "1"}, page=2, sort="-jobId")
    assert [job.job_id async for job in odd] == ["job-05", "job-03", "job-01"]
