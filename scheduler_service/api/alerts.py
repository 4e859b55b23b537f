"""Alerts: those of the settings, and what of them is open (SPEC section 14)."""

from typing import Any

from starlette.responses import Response

from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import absent, succeed
from scheduler_service.domain.moments import rfc3339
from scheduler_service.ports.alerts import AlertLine
from scheduler_service.telemetry.alerts.wording import body_of


async def list_alerts(request: ApiRequest) -> Response:
    """`GET /alerts`."""
    reader = request.deps.alerts
    if reader is None:
        raise absent("", "this service has no alerts")
    lines, total = await reader.open()
    data = {
        "configured": list(reader.configured),
        "open": [_open_wire(line) for line in lines],
        "openCount": total,
    }
    return succeed(data)


def _open_wire(line: AlertLine) -> dict[str, Any]:
    body = body_of(line)
    return {
        "alert": line.alert,
        "kind": line.kind.value,
        "subject": line.subject,
        "jobId": body["jobId"],
        "executionId": body["executionId"],
        "since": rfc3339(line.since),
        "saidAt": None if line.said_at is None else rfc3339(line.said_at),
        "text": body["text"],
    }
