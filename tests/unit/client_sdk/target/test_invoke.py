"""How a job's function is run and how it ended (SPEC section 16)."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from client_sdk import JobFailed, NotWanted
from client_sdk.target import Execution
from tests.unit.client_sdk.target.called_service import place


async def test_failures_have_their_codes() -> None:
    """What the function means is its status; what it does not mean is 500. `Retry-After` is in seconds."""
    async with place() as at:

        @at.service.job(job_id="fail")
        async def fail(how: str) -> None:
            if how == "meant":
                raise JobFailed("locked", status=423, data={"by": "bob"}, retry_after=2.5)
            raise RuntimeError("oops")

        meant = await at.call("fail", {"how": "meant"})
        assert (meant.status_code, meant.headers["retry-after"]) == (423, "3")
        told = meant.json()
        assert (told["status"], told["error"], told["message"]) == ("failed", "423", "locked")
        assert told["data"] == {"by": "bob"}
        other = await at.call("fail", {"how": "else"})
        assert (other.status_code, other.json()["message"]) == (500, "RuntimeError: oops")


async def test_begin_end_and_failure_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """At DEBUG, and what failed as its function meant at WARNING, with job and execution (section 16)."""
    caplog.set_level("DEBUG", "client_sdk")
    async with place() as at:

        @at.service.job(job_id="work")
        async def work(fails: bool) -> None:
            if fails:
                raise JobFailed("locked", error="E1")

        await at.call("work", {"fails": False})
        await at.call("work", {"fails": True})
    said = [(one.levelname, one.getMessage()) for one in caplog.records if one.name == "client_sdk"]
    assert said == [
        ("DEBUG", "job work begins, execution 7, attempt 9"),
        ("DEBUG", "job work succeeded, execution 7, attempt 9"),
        ("DEBUG", "job work begins, execution 7, attempt 9"),
        ("WARNING", "job work failed, execution 7, attempt 9, with E1: locked"),
    ]


async def test_work_that_stops_as_it_is_not_wanted_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """One line at INFO, without a traceback."""
    caplog.set_level("INFO", "client_sdk")
    async with place() as at:

        @at.service.job(job_id="work")
        async def work() -> None:
            raise NotWanted("it was cancelled")

        assert (await at.call("work")).status_code == 500
    [said] = [one for one in caplog.records if "job work" in one.getMessage()]
    assert said.getMessage() == "job work stops, execution 7, attempt 9: it was cancelled"
    assert (said.levelname, said.exc_info) == ("INFO", None)


async def test_a_function_that_blocks_runs_in_a_thread() -> None:
    """The event loop goes on meanwhile."""
    async with place() as at:
        here = threading.current_thread()

        @at.service.job(job_id="block")
        def block(execution: Execution) -> dict[str, Any]:
            with execution.progress(2) as progress:
                progress.advance()
            return {"elsewhere": threading.current_thread() is not here, "counts": execution.request_counts}

        @at.service.job(job_id="generate")
        def generate() -> Iterator[bool]:
            yield threading.current_thread() is not here

        assert (await at.call("block")).json() == {"elsewhere": True, "counts": 9}
        assert (await at.call("generate")).json() == [True]
