"""An application of the SDK and a scheduler as real processes (SPEC section 16)."""

import asyncio
import os
import re
import sys
from pathlib import Path

from client_sdk import Client
from client_sdk.errors import Absent
from tests.unit.docs.pages import ROOT
from tests.wire.processes.process import Process, bare_environment, free_port, serve


async def test_an_application_lives_whatever_its_jobs_do(tmp_path: Path) -> None:
    """One failure each, a blocked loop costs no heartbeat, and no execution runs beside the next one."""
    silent = {"PUNCTUAL_SERVICES__OFFLINE_SECONDS": "1", "PUNCTUAL_SERVICES__HEARTBEAT_SECONDS": "0.2"}
    with serve(tmp_path / "data", **silent) as scheduler:
        url = await asyncio.to_thread(scheduler.wait_for_url)
        environ = bare_environment(PYTHONPATH=f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        command = [sys.executable, "-m", "uvicorn", "tests.wire.processes.unruly:app", "--port", free_port()]
        with Process(command, cwd=ROOT, environ={**environ, "PUNCTUAL_URL": url}) as unruly:
            async with Client(url) as client, asyncio.timeout(60):
                await exists(client, "unruly-long")
                assert await failure(client, "unruly-exit") == "SystemExit: 3"
                assert await failure(client, "unruly-stop") == "StopIteration"
                held = await client.jobs.trigger("unruly-block", {"seconds": 3})
                assert (await client.wait_for(held)).state == "succeeded"
                for number in range(1, 5):
                    last = await client.jobs.trigger("unruly-long")
                    await asyncio.to_thread(unruly.wait_for_line, f"begin {number}, 1 at once")
                await client.executions.cancel(last)
                await asyncio.to_thread(unruly.wait_for_line, "end 4")
        said = [line.strip() for line in unruly.out if re.match("begin|end", line)]
        expected = [line for one in range(1, 5) for line in (f"begin {one}, 1 at once", f"end {one}")]
        assert said == expected
        assert not [line for line in scheduler.err if '"instance_lost"' in line]


async def exists(client: Client, job_id: str) -> None:
    """Returns when the job does: an instance looks for its address first."""
    while True:
        try:
            await client.jobs.get(job_id)
        except Absent:
            continue  # each look is a request
        return


async def failure(client: Client, job_id: str) -> str:
    """What the function did, in the words of its one failed attempt."""
    ended = await client.wait_for(await client.jobs.trigger(job_id))
    assert (ended.state, ended.error, ended.attempt_count) == ("terminated", "500", 1)
    body = ended.attempts[0].steps[0].response
    assert body is not None
    found = re.search(r'"message":\s*"((?:SystemExit: 3)|StopIteration)', str(body.body))
    assert found is not None, body
    return found[1]
