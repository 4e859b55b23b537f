"""The demo's jobs: a chain of two steps, an asynchronous job with a check, a job that retries."""

from typing import Any


def demo_jobs(target: str) -> list[dict[str, Any]]:
    """The definitions, with requests to `target` (a base address)."""
    return [_chain(target), _report(target), _flaky(target)]


def _chain(target: str) -> dict[str, Any]:
    return {
        "jobId": "demo-chain",
        "jobName": "Price, then order",
        "creator": "demo",
        "creatorName": "Punctual demo",
        "timer": {"dueTime": "0s", "period": "5s"},
        "request": [
            {"method": "GET", "url": f"{target}/price", "respEnvName": "PRICE"},
            {
                "method": "POST",
                "url": f"{target}/order?article=${{PRICE.article}}",
                "body": {"price": "${PRICE.price}|json", "job": "${schedulingJobId}"},
            },
        ],
    }


def _report(target: str) -> dict[str, Any]:
    return {
        "jobId": "demo-report",
        "jobName": "A long report with progress checks",
        "creator": "demo",
        "creatorName": "Punctual demo",
        "timer": {"dueTime": "1s", "period": "10s"},
        "async": True,
        "qos": 1,
        "request": [{"method": "POST", "url": f"{target}/report"}],
        "checkUrl": f"{target}/report/${{schedulingExecuteNumber}}",
        "checkRateSeconds": 1,
        "notification": [{"url": f"{target}/notified", "stateEquals": ["finalSucceed", "finalFailed"]}],
    }


def _flaky(target: str) -> dict[str, Any]:
    return {
        "jobId": "demo-flaky",
        "jobName": "Fails twice, then succeeds",
        "creator": "demo",
        "creatorName": "Punctual demo",
        "timer": {"dueTime": "2s", "period": "15s"},
        "request": [{"method": "POST", "url": f"{target}/flaky/${{schedulingExecuteNumber}}"}],
        "retry": [{"errorEquals": "5xx", "intervalSeconds": 1, "maxAttempts": 3, "backoffRate": 1.5}],
    }
