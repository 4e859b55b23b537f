"""A job that is declared in code."""

from typing import Any

from pydantic import BaseModel

from client_sdk.models import RetryPolicy, Timer
from client_sdk.target import job


class Window(BaseModel):
    """A model among the parameters."""

    start: int
    end: int = 10


@job(
    job_id="import",
    job_name="Import",
    job_description="Imports files",
    creator="ops",
    timer=Timer(period="0 0/5 * * * ?"),
    asynchronous=True,
    timeout_seconds=600,
    retry=[RetryPolicy(error_equals="E1"), {"errorEquals": ["500"], "maxAttempts": 1}],
    labels={"team": "ops"},
    step={"timeoutSeconds": 5, "headers": {"X-Mine": "1"}},
)
async def import_files(folder: str = "in", *, window: Window | None = None) -> dict[str, Any]:
    return {"folder": folder, "window": window}
