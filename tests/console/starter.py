"""Jobs that belong to one test, so that the world of all tests stays as it is."""

import time
from typing import Any

from tests.console.service import PATIENCE_SECONDS, ConsoleService

LOOK = 0.02
ENDED = {"succeeded", "terminated", "cancelled", "skipped"}


class Starter:
    """Creates jobs, starts them, and destroys them in the end."""

    def __init__(self, service: ConsoleService) -> None:
        self._client = service.caller()
        self._jobs: list[str] = []

    def job(self, job_id: str, *steps: dict[str, Any], **members: Any) -> None:
        """Creates a job that is only triggered."""
        definition = {"jobName": job_id, "creator": "1", "timer": {"period": "external"}, "request": steps}
        answer = self._client.post(f"/jobs/{job_id}", json=definition | members)
        assert answer.status_code == 201, answer.text
        self._jobs.append(job_id)

    def run(self, job_id: str, **params: Any) -> str:
        """The id of an execution that has begun."""
        answer = self._client.post(f"/jobs/{job_id}/trigger", json=params)
        return str(answer.json()["data"]["executionId"])

    def ended(self, job_id: str, **params: Any) -> str:
        """The id of an execution that has ended."""
        execution, end = self.run(job_id, **params), time.monotonic() + PATIENCE_SECONDS
        while self._client.get(f"/executions/{execution}").json()["data"]["state"] not in ENDED:
            assert time.monotonic() < end, execution
            time.sleep(LOOK)
        return execution

    def close(self) -> None:
        """Destroys the jobs."""
        for job_id in self._jobs:
            self._client.delete(f"/jobs/{job_id}")
        self._client.close()
