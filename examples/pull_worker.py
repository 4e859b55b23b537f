"""A worker that claims its work from the pull queue `thumbnails`.

punctual worker examples.pull_worker:worker --url http://127.0.0.1:8000
"""

import asyncio
from typing import Any

from client_sdk import Execution, Worker

worker = Worker("thumbnails", concurrency=4)


@worker.job(step={"leaseSeconds": 30, "renewSeconds": 10})
async def make_thumbnail(image: str, execution: Execution, width: int = 120) -> dict[str, Any]:
    """Makes a small picture of a large one."""
    async with execution.progress(2) as progress:
        await asyncio.sleep(0.01)
        await progress.advance(message="read")
        await asyncio.sleep(0.01)
        await progress.advance(message="written")
    return {"thumbnail": f"{image}.{width}.png"}


@worker.otherwise
def do_anything_else(execution: Execution, **params: Any) -> dict[str, Any]:
    """Does parts of jobs that were defined elsewhere for this queue."""
    return {"jobId": execution.job_id, "params": params}
