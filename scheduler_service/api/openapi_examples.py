"""Examples of bodies for OpenAPI; each is accepted as it is."""

from typing import Any

DEFINITION: dict[str, Any] = {
    "jobName": "nightly report",
    "creator": "001",
    "creatorName": "ops",
    "timer": {"dueTime": "0s", "period": "0 30 2 * * ?", "timezone": "Europe/Berlin"},
    "request": [
        {
            "method": "POST",
            "url": "http://127.0.0.1:9000/report?callback=${schedulingFeedbackUrl}",
            "body": {"day": "${schedulingFireTime}"},
            "respEnvName": "report",
        }
    ],
    "async": True,
    "timeoutSeconds": 600,
    "retry": [{"errorEquals": ["5xx", "timeout"], "intervalSeconds": 2, "maxAttempts": 3}],
    "notification": [{"url": "http://127.0.0.1:9000/notify", "stateEquals": ["finalSucceed", "finalFailed"]}],
    "qos": 1,
}
DEFINITIONS: list[dict[str, Any]] = [{"jobId": "nightly-report", **DEFINITION}]
PARAMETERS: dict[str, Any] = {"day": "2026-01-31"}
FEEDBACK: dict[str, Any] = {"status": "succeed", "message": "done", "progress": "60/60", "data": {"rows": 7}}
OUTLOOK: dict[str, Any] = {"timer": {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin"}, "days": 366}
PREVIEW: dict[str, Any] = {"timer": {"dueTime": "0s", "period": "0 0/5 * * * ?"}, "count": 5}
BACKFILL: dict[str, Any] = {
    "from": "2026-01-01 00:00:00",
    "to": "2026-01-31 23:59:59",
    "which": "missing",
    "dryRun": True,
}
REPLAY: dict[str, Any] = {"fromStep": 0, "params": {"day": "2026-01-31"}}
TEMPLATE: dict[str, Any] = {
    "template": {"school": "${$.student}|json", "first": "number ${$.student[0].number}"},
    "root": {"student": [{"number": 1}, {"number": 8}]},
    "place": "body",
}
SERVICE: dict[str, Any] = {
    "address": "http://127.0.0.1:9000",
    "timers": [
        {
            "jobId": "billing.nightly",
            "jobName": "nightly billing",
            "timer": {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin"},
            "request": [{"url": "service:/nightly?callback=${schedulingFeedbackUrl}"}],
            "async": True,
        }
    ],
    "onChange": "update",
    "graceSeconds": 86400,
    "rateLimit": {"count": 100, "perSeconds": 1},
}
INSTANCE: dict[str, Any] = {"address": "http://127.0.0.1:9000", "tags": ["eu"], "capacity": 8}
HEARTBEAT: dict[str, Any] = {"load": 3, "draining": False}

SIGN_IN = {"key": "the key of the settings, server.key"}
NEW_KEY = {"name": "billing", "role": "editor", "service": "billing"}
NEW_SECRET = {"value": "a-token-of-the-shop", "keepEarlier": True}
NEW_CALENDAR = {"free": ["2026-10-01/2026-10-07"], "work": ["2026-10-10"], "timezone": "Asia/Shanghai"}
DATES_TEXT = {
    "text": "2026-10-01/2026-10-07 National Day\n2026-12-25\n",
    "as": "free",
    "calendar": NEW_CALENDAR,
}
ROTATION = {"overlapSeconds": 3600}
CLAIM = {"instanceId": "worker-1", "max": 2, "waitSeconds": 0}
RENEWAL = {"progress": "20/60"}
FREEING = {"executionId": "0198c0de-1", "requestCounts": 1, "step": 0, "shardIndex": 0}
COMPLETION = {"status": "succeed", "data": {"rows": 60}}

BULK_JOBS = {"action": "pause", "select": {"filter": {"label": "team:ops"}}, "dryRun": True}

TRIAL: dict[str, Any] = {"definition": DEFINITION, "params": {"size": 3}}

BULK_EXECUTIONS = {
    "action": "replay",
    "select": {"filter": {"jobId": "nightly-report", "outcome": "failed"}},
    "dryRun": True,
}
