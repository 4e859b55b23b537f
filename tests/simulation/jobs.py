"""Random jobs, and what their callers ask for: values, so that a run can be repeated with fewer of them."""

from random import Random
from typing import Any

import msgspec

from scheduler_service.domain.moments import SECOND, rfc3339

BEGIN = 1_700_000_000_000
"""The wall clock (ms) when a world begins."""


class Ask(msgspec.Struct, frozen=True):
    """A caller asks for something at a moment of the world (ms), with an Idempotency-Key or without.

    With one, and where repeating does no harm, it asks until it has an answer; else once.
    """

    at: int
    what: str
    has_key: bool = True
    option: str = ""


class JobPlan(msgspec.Struct, frozen=True):
    """A job and what is asked of it. `period` is that of its grid in ms; 0: it has none.

    `delay`: that of a fixed delay; 0: it is none. `jitter`: of a cron timer, less than its period.
    """

    job_id: str
    definition: dict[str, Any]
    asks: tuple[Ask, ...]
    period: int = 0
    delay: int = 0
    jitter: int = 0

    @property
    def qos(self) -> int:
        """Its qos."""
        return int(self.definition["qos"])

    @property
    def is_asynchronous(self) -> bool:
        """Whether its outcome comes after its chain."""
        return bool(self.definition.get("async"))


def draw_jobs(chance: Random, horizon: int) -> tuple[JobPlan, ...]:
    """One to four jobs whose firings are over by `horizon`."""
    count = chance.choice((1, 2, 3, 3, 4))
    return tuple(_draw_job(chance, f"job{number}", horizon) for number in range(count))


def _draw_job(chance: Random, job_id: str, horizon: int) -> JobPlan:
    created = chance.randrange(0, horizon // 3)
    kind = chance.choice(("one_time", "timing", "timing", "repeats", "cron", "cron", "external"))
    period = chance.choice((1, 2, 3, 5, 10, 20)) * SECOND
    timer = _timer(chance, kind, period, horizon)
    # Of a chance of its own, so that seeds draw what they always drew beside it.
    has_delay = kind in ("timing", "repeats") and Random(f"{created} {period}").random() < 0.25
    if timer is not None and has_delay:
        timer["periodFrom"] = "end"
    # By this number those of `seeds.py` have none.
    has_jitter = kind == "cron" and Random(f"jitter 7 {created} {period}").random() < 0.3
    if timer is not None and has_jitter:
        timer["jitterSeconds"] = period * 0.9 / SECOND
    definition: dict[str, Any] = {
        "jobId": job_id,
        "jobName": "simulated",
        "creator": "1",
        "creatorName": "one",
        "qos": chance.choice((0, 1, 1)),
        "request": _chain(chance, job_id),
        "overlapPolicy": chance.choice(("skip", "skip", "queue", "cancel_running", "allow")),
        "maxConcurrency": chance.choice((1, 1, 2)),
        "timeoutSeconds": chance.choice((2, 10, 60)),
        "notification": _notifications(chance, job_id),
        "labels": {"revision": "1"},
    }
    if timer is not None:
        definition["timer"] = timer
    if chance.random() < 0.6:
        definition["retry"] = _retries(chance)
    if definition["overlapPolicy"] == "queue":
        definition["queueLimit"] = chance.choice((0, 2, 100))
    if chance.random() < 0.4:
        _make_asynchronous(chance, definition, job_id)
    asks = (Ask(created, "create"), *_asks(chance, kind, created, horizon))
    if has_delay:
        return JobPlan(job_id, definition, asks, delay=period)
    period = 0 if timer is None or kind == "external" else period
    return JobPlan(job_id, definition, asks, period, jitter=int(period * 0.9) if has_jitter else 0)


def _timer(chance: Random, kind: str, period: int, horizon: int) -> dict[str, Any] | None:
    if kind == "one_time":
        return None
    if kind == "external":
        return {"period": "external"}
    misfire = {
        "policy": chance.choice(("fire_once", "skip", "fire_all")),
        "graceSeconds": chance.choice((1, 5, 60)),
        "limit": chance.choice((2, 100)),
    }
    due = f"{chance.choice((0, 1, 7))}s"
    seconds = period // SECOND
    if kind == "repeats":
        count = chance.choice((1, 3, max(1, horizon // period // 2)))
        return {"dueTime": due, "period": f"R{count}/PT{seconds}S", "misfire": misfire}
    period_text = f"*/{seconds} * * * * ?" if kind == "cron" else f"{seconds}s"
    return {"dueTime": due, "period": period_text, "misfire": misfire, "endAt": rfc3339(BEGIN + horizon)}


def _chain(chance: Random, job_id: str) -> list[dict[str, Any]]:
    fired = {"fired": "${schedulingFireTime}", "number": "${executeNumber}"}
    steps: list[dict[str, Any]] = [
        {"url": f"http://target.test/{job_id}/step0", "body": fired, "respEnvName": "FIRST"},
        {"url": f"http://target.test/{job_id}/step1", "body": {"first": "${FIRST.value}"}},
        {"url": f"http://target.test/{job_id}/step2", "body": {"attempt": "${schedulingRequestCounts}"}},
    ]
    chosen = steps[: chance.choice((1, 1, 2, 3))]
    if chance.random() < 0.3:
        chosen[-1]["retryFrom"] = "step"
    if chance.random() < 0.3:
        chosen[0]["timeoutSeconds"] = 1
    return chosen


def _retries(chance: Random) -> list[dict[str, Any]]:
    return [
        {
            "errorEquals": chance.choice(("5xx", "*", ["500", "404"])),
            "intervalSeconds": chance.choice((0, 0.3, 2)),
            "maxAttempts": chance.choice((1, 2, 4)),
            "jitter": chance.choice(("none", "full")),
        }
    ]


def _notifications(chance: Random, job_id: str) -> list[dict[str, Any]]:
    entry: dict[str, Any] = {"url": f"http://hook.test/{job_id}"}
    if chance.random() < 0.4:
        entry["stateEquals"] = ["finalSucceed", "finalFailed"]
    if chance.random() < 0.5:
        entry["guarantee"] = "outbox"
    return chance.choice(([], [entry], [entry]))


def _make_asynchronous(chance: Random, definition: dict[str, Any], job_id: str) -> None:
    definition["async"] = True
    if chance.random() < 0.5:
        definition["checkUrl"] = f"http://target.test/{job_id}/check"
        definition["checkRateSeconds"] = chance.choice((0.2, 1))
    else:
        last = definition["request"][-1]
        last["body"] = last["body"] | {"feedback": "${schedulingFeedbackUrl}"}


def _asks(chance: Random, kind: str, created: int, horizon: int) -> tuple[Ask, ...]:
    wanted = chance.choice((0, 1, 3)) + (3 if kind == "external" else 0)
    asks = []
    for _ in range(wanted):
        at = chance.randrange(created, horizon)
        asks.append(Ask(at, "trigger", chance.random() < 0.7, chance.choice(("", "", "2000", "9000"))))
    if chance.random() < 0.4:
        for what in chance.choices(("pause", "activate", "update", "cancel", "create", "destroy"), k=3):
            asks.append(Ask(chance.randrange(created, horizon), what, True, _option(chance, what)))
    if chance.random() < 0.15:
        asks.append(Ask(chance.randrange(created, horizon), "destroy"))
    return tuple(sorted(asks, key=lambda one: one.at))


def _option(chance: Random, what: str) -> str:
    if what == "activate":
        return chance.choice(("skip", "fire_once", "fire_all"))
    return chance.choice(("", "drain")) if what == "pause" else ""
