"""A FastAPI service with two declared jobs: a nightly one, and an asynchronous one with progress.

uvicorn examples.fastapi_service:app --port 9001
"""

import asyncio
import os
from typing import Annotated

from fastapi import FastAPI
from pydantic import Field

from client_sdk import Client, Execution, JobFailed, Service

client = Client(os.environ.get("PUNCTUAL_URL", "http://127.0.0.1:8000"), key=os.environ.get("PUNCTUAL_KEY"))
service = Service("reports", client=client, tags=["example"])
app = FastAPI(title="Reports")
app.add_middleware(service.wrap)
removed: list[int] = []


@service.job(timer={"period": "0 30 2 * * ?"}, retry=[{"errorEquals": "5xx"}])
def clean(days: Annotated[int, Field(ge=1)] = 30) -> dict[str, int]:
    """Removes reports that are older than so many days."""
    removed.append(days)
    return {"removed": days}


@service.job(asynchronous=True, timeout_seconds=600, max_concurrency=4, overlap_policy="queue")
async def build(name: str, execution: Execution, pages: int = 60, pause: float = 0.01) -> dict[str, str]:
    """Builds a report, page by page."""
    if name == "impossible":
        raise JobFailed("this report cannot be built", error="E_IMPOSSIBLE")
    async with execution.progress(pages) as progress:
        for page in range(pages):
            await asyncio.sleep(pause)
            await progress.advance(message=f"page {page + 1}")
    return {"report": f"/reports/{name}.pdf"}


@app.get("/cleanings")
async def list_cleanings() -> list[int]:
    """The service's own routes are not affected."""
    return removed
