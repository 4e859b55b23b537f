"""The service itself: health, statistics, nodes, settings (SPEC section 14)."""

import asyncio
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from client_sdk.models import answers
from scheduler_service.api.bodies import header
from scheduler_service.api.request import ApiRequest, Routes
from scheduler_service.api.responses import absent, refuse, succeed
from scheduler_service.domain.moments import rfc3339
from scheduler_service.ports.alerts import AlertLine
from scheduler_service.security.callers import Role
from scheduler_service.services.tenant_execution_rates import NAME as RATE
from scheduler_service.telemetry.alerts.alert_messages import body_of

ROUTES = Routes("operation")


@ROUTES.add("GET /health/live", Role.VIEWER, data=answers.Health, is_open=True)
async def say_alive(request: ApiRequest) -> Response:
    """Check that the process answers, and that its loop has not stood still just before."""
    held = round(request.deps.shown.standstills.longest * 1_000)
    stood = request.deps.shown.standstills.lasting
    if stood is not None:
        message = f"the loop of this process stood still for {stood:.1f} s; the log says where"
        problem = refuse(HTTPStatus.SERVICE_UNAVAILABLE, "", "stood_still", message)
        problem.further = {"loopHeldMs": held}
        raise problem
    return succeed({"status": "live", "version": request.deps.shown.version, "loopHeldMs": held})


@ROUTES.add("GET /health/ready", Role.VIEWER, data=answers.Health, is_open=True)
async def say_ready(request: ApiRequest) -> Response:
    """Check that the service accepts work; 503 says what is missing."""
    missing = await request.deps.shown.ready()
    parts = request.deps.shown.parts()
    if missing:
        names = ", ".join(missing)
        problem = refuse(HTTPStatus.SERVICE_UNAVAILABLE, "", "not_ready", f"not ready yet: {names}")
        problem.further = {"parts": parts}
        raise problem
    return succeed({"status": "ready", "version": request.deps.shown.version, "parts": parts})


@ROUTES.add("GET /stats", Role.VIEWER, data=answers.Statistics)
async def show_statistics(request: ApiRequest) -> Response:
    """Show how much is due, running and late."""
    deps, now, tenant = request.deps, request.deps.clock.now(), request.caller.tenant
    # At one time, as both may have to wait for what a burst has left to be written.
    behind, counts = await asyncio.gather(request.catch_up(), deps.catalogue.counts(now, tenant=tenant))
    figures = await deps.history.statistics(tenant, now.wall)
    jobs = {str(state): number for state, number in counts.by_state.items()}
    present = {"due": counts.due, "waiting": counts.waiting, "running": counts.running, "jobs": jobs}
    limits, used = deps.shown.tenant_limits(tenant), dict(counts.used)
    if RATE in limits:  # a restart may have let some more begin
        used[RATE] = min(await deps.history.begun(tenant, now.wall), limits[RATE])
    lines = [{"name": name, "value": value, "used": used.get(name)} for name, value in limits.items()]
    return succeed({**present, **figures, "limits": lines}, warnings=behind)


@ROUTES.add("GET /nodes", Role.VIEWER, data=answers.Listing[answers.Node], statuses=(404,), of_platform=True)
async def list_nodes(request: ApiRequest) -> Response:
    """List the scheduler processes, with the last heartbeat of each."""
    return succeed({"items": list(await request.deps.shown.nodes()), "nextCursor": None})


@ROUTES.add("GET /settings", Role.ADMIN, data=dict, statuses=(404,), of_platform=True)
async def show_settings(request: ApiRequest) -> Response:
    """Show each effective setting and where it comes from."""
    return succeed(request.deps.shown.settings())


@ROUTES.add("GET /metrics", Role.VIEWER, media_type="text/plain", statuses=(404,), of_platform=True)
async def show_metrics(request: ApiRequest) -> Response:
    """Show the figures of all processes of the service, or of this node, for Prometheus."""
    if request.deps.shown.metrics is None:
        raise absent("", "metrics are off; set metrics.enabled")
    found = await request.deps.shown.metrics.expose(header(request.scope, b"accept") or "")
    return Response(found.body, headers={"content-type": found.content_type})


@ROUTES.add("GET /alerts", Role.VIEWER, data=answers.Alerts, statuses=(404,), of_platform=True)
async def list_alerts(request: ApiRequest) -> Response:
    """List the alerts of the settings, and what of them is open; jobs of other tenants for admins."""
    reader = request.deps.shown.alerts
    found, total = await reader.open(is_own=not request.caller.role.includes(Role.ADMIN))
    data = {
        "configured": list(reader.configured),
        "open": [_open_wire(line) for line in found],
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
