"""How the service itself is: health, figures, settings (SPEC section 14)."""

from http import HTTPStatus

from starlette.responses import Response

from scheduler_service.api.problems import absent, refuse
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed


async def say_alive(call: ApiRequest) -> Response:
    """`GET /health/live`: the process answers."""
    return succeed({"status": "live", "version": call.parts.version})


async def say_ready(call: ApiRequest) -> Response:
    """`GET /health/ready`: 200 while it takes work, else 503 naming what is missing."""
    missing = await call.parts.ready()
    if missing:
        names = ", ".join(missing)
        raise refuse(HTTPStatus.SERVICE_UNAVAILABLE, "", "not_ready", f"not ready yet: {names}")
    return succeed({"status": "ready", "version": call.parts.version})


async def show_stats(call: ApiRequest) -> Response:
    """`GET /stats`."""
    parts, now = call.parts, call.parts.clock.now()
    tenant = parts.surroundings.tenant
    counts = await parts.catalogue.counts(now, tenant=tenant)
    figures = await parts.history.statistics(tenant, now.wall)
    jobs = {str(state): number for state, number in counts.by_state.items()}
    standing = {"due": counts.due, "waiting": counts.waiting, "running": counts.running, "jobs": jobs}
    return succeed({**standing, **figures})


async def list_nodes(call: ApiRequest) -> Response:
    """`GET /nodes`: the scheduler processes, and when each was heard of last."""
    if call.parts.nodes is None:
        raise absent("", "this service does not tell of its nodes")
    return succeed({"items": list(await call.parts.nodes()), "nextCursor": None})


async def show_settings(call: ApiRequest) -> Response:
    """`GET /settings`: each effective value and where it comes from."""
    if call.parts.settings is None:
        raise absent("", "this service does not show its settings")
    return succeed(call.parts.settings())
