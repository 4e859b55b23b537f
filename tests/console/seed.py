"""A small world for the pages: jobs of every kind, good and bad ends, and things that wait."""

import time
from collections.abc import Callable
from typing import Any

import httpx

from tests.console.service import PATIENCE_SECONDS, ConsoleService
from tests.wire.target import HELD, Reply

ORDERS = 12
"""Executions of `orders`; each fourth one fails."""


def fill(service: ConsoleService) -> None:
    """Creates the world; returns when what is to end has ended."""
    _script(service)
    with service.caller() as client:
        for job_id, members in _jobs().items():
            _check(client.post(f"/jobs/{job_id}", json=_definition(job_id, **members)))
        _check(client.put("/jobs/archive", params={"active": 0}))
        _check(client.put("/calendars/office", json={"free": ["2099-12-24/2099-12-26"]}))
        for name in ("billing-1", "billing-2"):
            instance = {"address": f"{service.target.url}/{name}", "capacity": 8}
            _check(client.put(f"/services/billing/instances/{name}", json=instance))
        for number in range(ORDERS):
            _check(client.post("/jobs/orders/trigger", json={"number": number}))
        for job_id in ("flaky", "told", "images", "images", "report", "held"):
            _check(client.post(f"/jobs/{job_id}/trigger", json={}))
        _until(client, "/executions", {"jobId": "orders"}, lambda page: _ended(page) >= ORDERS)
        _until(client, "/executions", {"jobId": "flaky"}, lambda page: _ended(page) >= 1)
        _until(client, "/deliveries", {"jobId": "told"}, lambda page: len(page["items"]) >= 1)
        _until(client, "/queues", {}, lambda page: any(one["depth"] >= 2 for one in page["items"]))
        claim = {"instanceId": "worker-1", "max": 1, "waitSeconds": 0}
        _check(client.post("/queues/images/claim", json=claim))


def _script(service: ConsoleService) -> None:
    target, tries = service.target, [0]

    def answer_flaky(_: Any) -> Reply:
        tries[0] += 1
        return Reply(503, {"error": "try again"}) if tries[0] < 3 else Reply(200, {"tries": tries[0]})

    def answer_order(seen: Any) -> Reply:
        number = int(seen.query.get("number", 0))
        return (
            Reply(500, {"error": "no such article"}) if number % 4 == 3 else Reply(200, {"ordered": number})
        )

    target.always("/flaky", answer_flaky)
    target.always("/order", answer_order)
    target.always("/refusing", 503)
    target.always("/report/check", Reply(200, {"progress": "20/60", "message": "reading"}))
    target.always("/held", HELD)


def _jobs() -> dict[str, dict[str, Any]]:
    told = {"url": "service://shop/refusing", "stateEquals": ["finalSucceed"], "guarantee": "outbox"}
    retry = [{"errorEquals": "5xx", "intervalSeconds": 0.1, "maxAttempts": 3, "backoffRate": 1.5}]
    return {
        "nightly": {
            "timer": {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin"},
            "labels": {"team": "sales"},
        },
        "hourly": {"timer": {"dueTime": "1h", "period": "1h"}, "labels": {"team": "sales"}},
        "once": {"timer": {"dueTime": "2h"}},
        "archive": {"timer": {"dueTime": "1h", "period": "1d"}},
        "orders": {
            "request": [{"method": "POST", "url": "service://shop/order?number=${$.number}"}],
            "labels": {"team": "shop", "tier": "one"},
            "overlapPolicy": "allow",
        },
        "flaky": {"request": [{"url": "service://shop/flaky"}], "retry": retry},
        "told": {"qos": 1, "notification": [told]},
        "images": {"request": [{"url": "queue://images", "body": {"size": 1}}], "overlapPolicy": "allow"},
        "report": {
            "async": True,
            "qos": 1,
            "request": [{"method": "POST", "url": "service://shop/report"}],
            "checkUrl": "service://shop/report/check",
            "checkRateSeconds": 1,
        },
        "held": {"request": [{"url": "service://shop/held"}], "timeoutSeconds": 600},
    }


def _definition(job_id: str, **members: Any) -> dict[str, Any]:
    return {
        "jobName": f"The job {job_id}",
        "creator": "1",
        "creatorName": "Ada",
        "timer": {"period": "external"},
        "request": [{"method": "GET", "url": "service://shop/ok"}],
        **members,
    }


def _check(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json()["data"]


def _ended(page: dict[str, Any]) -> int:
    return sum(1 for one in page["items"] if one["endedAt"] is not None)


def _until(client: httpx.Client, path: str, query: dict[str, Any], holds: Callable[[Any], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds(page := _check(client.get(path, params={**query, "limit": 100}))):
        assert time.monotonic() < end, (path, page)
