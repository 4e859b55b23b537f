"""One service over HTTP: keys and what is not tried again."""

import httpx
import pytest

from client_sdk import Client
from client_sdk.errors import Unreachable
from tests.rows import each_row
from tests.unit.client_sdk.client.lossy_connection import Line
from tests.wire.service import definition


@each_row("key", ["", "a\nb", "a\r\n", "schlüssel", "x" * 256])
async def test_a_key_that_cannot_be_sent_is_refused_at_once(key: str) -> None:
    """Nothing is sent, and nothing is tried again."""
    line = Line(None)
    for call in (
        line.jobs.trigger("one", idempotency_key=key),
        line.jobs.create(definition(), job_id="one", idempotency_key=key),
        line.jobs.update("one", definition(), idempotency_key=key),
    ):
        with pytest.raises(ValueError, match="cannot be sent"):
            await call
    assert (line.line.sent, line.waits.seconds) == ([], [])


async def test_what_is_no_http_is_not_tried_again() -> None:
    """It would fail in the same manner every time."""
    line = Line(None, httpx.LocalProtocolError("Illegal header value"), "before")
    with pytest.raises(Unreachable, match="1 tries"):
        await line.jobs.get("one")
    assert line.waits.seconds == []


@each_row(
    ("failure", "was_sent", "words"),
    [
        (httpx.ConnectError("refused"), False, "no service answers"),
        (ExceptionGroup("all", [OSError("refused")]), False, "no service answers"),
        (httpx.ReadTimeout("silent"), True, "which may have done it"),
        (httpx.RemoteProtocolError("cut"), True, "which may have done it"),
    ],
)
async def test_an_error_says_whether_the_service_may_have_done_it(
    failure: Exception, was_sent: bool, words: str
) -> None:
    """A trigger without a key is not tried again then: its caller has to look."""
    line = Line(None, failure, retries=0)
    with pytest.raises(Unreachable, match=words) as caught:
        await line.jobs.trigger("one")
    assert caught.value.was_sent is was_sent


def test_an_api_key_with_a_line_break_is_refused() -> None:
    """As it is read from a file; it is not shown."""
    with pytest.raises(ValueError, match="line break") as caught:
        Client("http://scheduler.test", key="secret\n")
    assert "secret" not in str(caught.value)


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
