"""The definition from which the product's contract was made, and the addresses that it names."""

from typing import Any

SENT = {
    "classSize": 2,
    "teacher": "陈世超",
    "student": [
        {"number": 1, "name": "${jobId}", "age": 40},
        {"number": 8, "name": "${jobId}", "age": 30},
    ],
    "describe": "云师大附中...",
}

OWN = {"name": "chensc"}

WORK = "/main/resultHandleSchool"

STRINGS = "/main/workHandleStr"

CHECK = "/main/provideCheckUrl"

TOLD = "/main/notifierClient"

FIVE_MINUTES = 300_000


def example() -> dict[str, Any]:
    """The entry of the document's timer list, word for word."""
    return {
        "jobName": "job测试2",
        "request": [
            {
                "headers": OWN,
                "method": "POST",
                "body": SENT,
                "url": f"service://jobswork{WORK}?feedbackUrl=${{schedulingFeedbackUrl}}",
            },
            {
                "headers": OWN,
                "method": "POST",
                "body": {"school": "${$.student}|json"},
                "url": f"service://jobswork{STRINGS}?feedbackUrl=${{schedulingFeedbackUrl}}",
            },
        ],
        "creator": "001",
        "creatorName": "service-client",
        "active": 1,
        "async": True,
        "jobId": "20220125",
        "notification": [
            {
                "headers": OWN,
                "body": "${schedulingNotifyBody}|json",
                "method": "POST",
                "url": f"service://jobsclient{TOLD}/${{schedulingJobId}}"
                "?executeNumber=${schedulingExecuteNumber}",
            }
        ],
        "timer": {"period": "0 0/5 * * * ?", "dueTime": "2s", "ttl": "5d3s"},
        "qos": 0,
        "timeoutSeconds": 15,
        "jobDescription": "走起...",
        "checkRateSeconds": 4,
        "checkUrl": {
            "headers": OWN,
            "method": "GET",
            "url": f"service://jobswork{CHECK}/${{schedulingJobId}}?executeNumber=${{schedulingExecuteNumber}}",
        },
        "retry": [
            {"maxAttempts": 2, "backoffRate": 1.5, "errorEquals": "500", "intervalSeconds": 2},
            {"maxAttempts": 2, "backoffRate": 2.0, "errorEquals": "timeout", "intervalSeconds": 5},
            {"maxAttempts": 2, "backoffRate": 2.0, "errorEquals": "error1", "intervalSeconds": 3},
        ],
    }
