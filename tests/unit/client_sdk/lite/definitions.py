"""Definitions of jobs without a server."""

from typing import Any


def chain(url: str) -> dict[str, Any]:
    """Two steps, the second of which uses the first one's answer, and a notification of the end."""
    return {
        "jobId": "chain",
        "jobName": "Chain",
        "creator": "1",
        "creatorName": "one",
        "request": [
            {
                "url": f"{url}/first?size=${{size}}",
                "body": {"all": "${trigger}|json"},
                "respEnvName": "FIRST",
            },
            {
                "method": "PUT",
                "url": f"{url}/second/${{FIRST.id}}",
                "headers": {"X-Of": "${schedulingJobId} ${responses[0].id}"},
                "body": {"rows": "${$.rows}|json", "number": "${schedulingExecuteNumber}"},
            },
        ],
        "notification": [{"url": f"{url}/told", "stateEquals": ["finalSucceed", "finalFailed"]}],
    }
