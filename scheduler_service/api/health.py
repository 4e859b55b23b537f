"""The service itself: health, statistics, nodes, settings (SPEC section 14)."""

import asyncio
from http import HTTPStatus

from starlette.responses import Response

from scheduler_service.api.bodies import header
from scheduler_service.api.freshness import catch_up
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import absent, refuse, succeed


async def say_alive(request: ApiRequest) -> Response:
    """`GET /health/live`: the process answers, and its loop has not stood still just before."""
    held = round(request.deps.standstills.longest * 1_000)
    stood = request.deps.standstills.lasting
    if stood is not None:
        message = f"the loop of this process stood still for {stood:.1f} s; the log says where"
        problem = refuse(HTTPStatus.SERVICE_UNAVAILABLE, "", "stood_still", message)
        problem.further = {"loopHeldMs": held}
        raise problem
    return succeed({"status": "live", "version": request.deps.version, "loopHeldMs": held})


async def say_ready(request: ApiRequest) -> Response:
    """`GET /health/ready`: 200 while it accepts work, else 503 with what is missing."""
    missing = await request.deps.ready()
    parts = request.deps.parts()
    if missing:
        names = ", ".join(missing)
        problem = refuse(HTTPStatus.SERVICE_UNAVAILABLE, "", "not_ready", f"not ready yet: {names}")
        problem.further = {"parts": parts}
        raise problem
    return succeed({"status": "ready", "version": request.deps.version, "parts": parts})


async def show_statistics(request: ApiRequest) -> Response:
    """`GET /stats`."""
    deps, now, tenant = request.deps, request.deps.clock.now(), request.caller.tenant
    # At one time, as both may have to wait for what a burst has left to be written.
    behind, counts = await asyncio.gather(catch_up(request), deps.catalogue.counts(now, tenant=tenant))
    figures = await deps.history.statistics(tenant, now.wall)
    jobs = {str(state): number for state, number in counts.by_state.items()}
    present = {"due": counts.due, "waiting": counts.waiting, "running": counts.running, "jobs": jobs}
    return succeed({**present, **figures, "missing": list(counts.missing)}, warnings=behind)


async def list_nodes(request: ApiRequest) -> Response:
    """`GET /nodes`: the scheduler processes, with the last heartbeat of each."""
    if request.deps.nodes is None:
        raise absent("", "this service does not list its nodes")
    return succeed({"items": list(await request.deps.nodes()), "nextCursor": None})


async def show_settings(request: ApiRequest) -> Response:
    """`GET /settings`: each effective value and where it comes from."""
    if request.deps.settings is None:
        raise absent("", "this service does not show its settings")
    return succeed(request.deps.settings())


async def show_metrics(request: ApiRequest) -> Response:
    """`GET /metrics`: the figures of all processes of the service, or of this node, for Prometheus."""
    if request.deps.metrics is None:
        raise absent("", "metrics are off; set metrics.enabled")
    found = await request.deps.metrics.expose(header(request.scope, b"accept") or "")
    return Response(found.body, headers={"content-type": found.content_type, "cache-control": "no-store"})
