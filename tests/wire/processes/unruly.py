"""An application whose jobs misbehave, for `test_sdk_processes`; it says what runs beside what."""

import asyncio
import os
import sys
import time

from client_sdk import Client, Execution, Service

service = Service("unruly", client=Client(os.environ["PUNCTUAL_URL"]))
app = service
at_once = 0


@service.job(job_id="unruly-exit")
async def leave() -> None:
    """Ends the process, if it may."""
    sys.exit(3)


@service.job(job_id="unruly-stop")
def stop() -> None:
    """A future cannot hold what it raises."""
    raise StopIteration


@service.job(job_id="unruly-block", asynchronous=True)
async def block(seconds: float) -> None:
    """Holds the event loop."""
    time.sleep(seconds)  # noqa: ASYNC251 - as they do who do not know it


@service.job(job_id="unruly-long", overlap_policy="cancel_running", max_concurrency=1)
async def long(execution: Execution) -> None:
    """Runs until it is cancelled."""
    global at_once
    at_once += 1
    print(f"begin {execution.execute_number}, {at_once} at once", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        at_once -= 1
        print(f"end {execution.execute_number}", flush=True)
