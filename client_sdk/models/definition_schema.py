"""JSON Schema of a definition, from which a form or an editor can be drawn (SPEC section 10)."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from client_sdk.models.definition import JobDefinition

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CODE = re.compile(r"`([^`]+)`")

URL = "An absolute URL, or a place as service://NAME/path, service:/path, queue://NAME; may hold templates."
RULE: Mapping[str, str] = {
    "successWhen": "What must hold of the answer's JSON, as @.code == 0; a status alone is no success then.",
    "errorFrom": "Where a failed answer has its error code, as $.code.",
    "messageFrom": "Where a failed answer says why, as $.msg.",
}
DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "JobDefinition": {
        "jobId": "1 to 128 of letters, digits, '.', '_', ':' and '-', the first a letter or digit.",
        "objectId": "Your own reference; lists can be filtered by it.",
        "jobName": "A name for people.",
        "jobDescription": "A text for people.",
        "creator": "Who created the job; by default the caller.",
        "creatorName": "The name of who created the job; by default the caller's.",
        "notification": "Whom to notify of what happens to an execution.",
        "active": "0: the job is created paused.",
        "timer": "When the job fires; without one once, at its creation. A string holds the same as JSON.",
        "request": "The steps of the chain, sent one after the other.",
        "async": "The target answers at once, and reports or is asked for the end later.",
        "checkUrl": "Asked again and again for the end of asynchronous work. A string is its url.",
        "checkRateSeconds": "Seconds between two checks.",
        "timeoutSeconds": "The limit of one attempt in seconds; 0: none, for asynchronous or claimed work.",
        "cancelUrl": "Called when an execution in flight ends early.",
        "retry": "Policies of retries; the first one that matches an error decides.",
        "maxRetries": "How often an execution is retried at most, over all policies.",
        "qos": "1: also the context of a chain outlives a crash, and no step is repeated that was answered.",
        "parentJob": "The job whose execution created this one.",
        "parentJobExecution": "The number of the execution that created this one.",
        "maxConcurrency": "How many executions run at once.",
        "overlapPolicy": "What becomes of a firing that comes while as many run.",
        "queueLimit": "How many firings wait at most with the overlap policy queue.",
        "leadSeconds": "Requests may be sent this much early; by default 0, of queues 3.",
        "startPolicy": "manual: the job is created paused.",
        "pauseAfterFailures": "So many executions in a row that failed for good pause the job.",
        "keepResult": "true: what an execution was answered last is kept whole.",
        "disabled": "true: nothing of the job runs; firings are skipped, triggers refused.",
        "historyDetail": "Of which executions requests and responses are kept; by default as set.",
        "labels": "Your own names and texts; lists can be filtered by them.",
        "paramsSchema": "A JSON Schema that the parameters of a trigger must fit.",
        "serviceOptions": "What the job's service says of its options; written by the scheduler.",
    },
    "Timer": {
        "dueTime": "The first moment (2026-10-01 09:00:01, RFC 3339), or a delay after the creation (2h30m).",
        "period": "A duration (5m, PT1H, R4/PT3S), a cron expression, or external.",
        "ttl": "No firing after it: a duration from the creation, or a moment.",
        "timezone": "An IANA name, as Europe/Berlin; by default that of the settings.",
        "startAt": "No firing before this moment.",
        "endAt": "No firing after this moment.",
        "misfire": "What happens to firings that are found late.",
        "jitterSeconds": "Spreads each firing over so many seconds.",
        "calendar": "It fires on the days of this calendar alone. A string is its name.",
        "periodFrom": "end: a period is counted from the end of the latest execution.",
    },
    "CalendarDays": {
        "name": "The name of a calendar of the tenant.",
        "days": "work: on its working days; free: on the others.",
        "otherwise": "A moment on another day: skip, or it moves to the next or previous such day.",
    },
    "Misfire": {
        "policy": "fire_once: the latest one fires; skip: none; fire_all: all of them, up to the limit.",
        "graceSeconds": "A firing that is found so late is not a misfire yet.",
        "limit": "How many firings are caught up at most.",
    },
    "RetryPolicy": {
        "errorEquals": "The error codes that it is for: 500, 5xx, timeout, connect, …, or * for all.",
        "intervalSeconds": "The wait before the first retry in seconds.",
        "maxAttempts": "How many retries it allows.",
        "backoffRate": "Each wait is the one before times this.",
        "maxIntervalSeconds": "The longest wait in seconds.",
        "jitter": "full: each wait is a random one up to its length.",
    },
    "Notification": {
        "name": "A name for people.",
        "method": "The HTTP method.",
        "url": URL,
        "headers": "Headers; values may hold templates.",
        "body": "Any JSON; texts in it may hold templates.",
        "stateEquals": "The events it is for, as finalFailed; by default all.",
        "dedupe": "onChange: an equal one after the other is left out.",
        "guarantee": "outbox: it outlives a crash, and is tried again for long.",
        **RULE,
        "sign": "The name of the secret that signs it (Standard Webhooks).",
    },
    "CheckUrl": {
        "method": "Always GET.",
        "url": URL,
        "serviceName": "The service that the path of url belongs to.",
        "headers": "Headers; values may hold templates.",
        "sign": "The name of the secret that signs it (Standard Webhooks).",
        "timeoutSeconds": "The limit of one check in seconds.",
        **RULE,
    },
}
_OF_SERVICE = {"service": "The service that says so.", **DESCRIPTIONS["JobDefinition"]}
_STEP: Mapping[str, str] = {
    "method": "The HTTP method.",
    "url": URL,
    "serviceName": "The service that the path of url belongs to.",
    "headers": "Headers; values may hold templates.",
    "body": "Any JSON; texts in it may hold templates. Left out: the parameters of the trigger.",
    "respEnvName": "The name by which later steps refer to the response.",
    "successCodes": "The statuses that are a success, as 200 or 2xx.",
    **RULE,
    "sign": "The name of the secret that signs it (Standard Webhooks).",
    "followRedirects": "How many redirects are followed.",
    "retryFrom": "step: a retry begins at the step that failed; chain: at the first one.",
    "timeoutSeconds": "The limit of this request in seconds.",
    "route": "Which instances of the service get it; by default as the service says.",
    "tags": "Only instances with all of these tags.",
    "specificInstances": "Only these instances.",
    "parallelism": "How many parts run at once (broadcast, shard).",
    "priority": "Of a queue: parts with a higher one are claimed first.",
    "leaseSeconds": "Of a queue: how long a worker may hold a part without renewing it.",
    "renewSeconds": "Of a queue: how often a worker renews.",
    "maxUnexpectedRetries": "Of a queue: how often a part that a worker lost is given to another.",
    "unexpectedRetryDelaySeconds": "Of a queue: the wait before that in seconds.",
    "queueTimeoutSeconds": "Of a queue: how long a part waits for a worker at most.",
}


@cache
def definition_schema() -> dict[str, Any]:
    """The schema (2020-12): titles, descriptions, defaults, words, limits. Do not change the result.

    What fits it may still be refused: times, cron and templates are texts in it.
    """
    schema = JobDefinition.model_json_schema(by_alias=True)
    for name, model in {"JobDefinition": schema, **schema["$defs"]}.items():
        model["title"] = _WORD.sub(" ", name).capitalize()
        model["description"] = _CODE.sub(r"\1", model["description"].partition("\n\n")[0]).replace("\n", " ")
        texts = _OF_SERVICE if name == "ServiceOptions" else DESCRIPTIONS.get(name, _STEP)
        for member, described in model["properties"].items():
            described["title"] = _WORD.sub(" ", member).capitalize()
            described["description"] = texts[member]
    schema["properties"]["labels"]["propertyNames"] = {"pattern": "^[^:]+$"}
    return {"$schema": DIALECT, **schema}
