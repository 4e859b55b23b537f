"""The front page `/`: browsers go on to the console, or see what answers here; JSON for all others."""

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from starlette.responses import RedirectResponse, Response

from scheduler_service.api.bodies import header
from scheduler_service.api.pages import CONSOLE
from scheduler_service.api.pages.markup import Html, headers, join, page, table, tag
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed

NAME = "Punctual"
WHAT = "Jobs as REST resources: timers, chains of HTTP requests, retries, and nothing lost in a crash."
DESCRIPTIONS: Mapping[str, str] = {
    "/docs": "every route with its parameters, shapes and examples",
    "/openapi.json": "the same for programs, in OpenAPI 3.1",
    CONSOLE: "the console, for a browser",
    "/jobs": "the jobs",
    "/executions": "what has run and what runs, the newest first",
    "/upcoming": "what is planned",
    "/stats": "how much is due, running and late",
    "/statistics": "what became of executions, day by day",
    "/nodes": "the scheduler processes",
    "/alerts": "whom the settings tell of what, and what is open",
    "/events": "what happens, as it happens",
    "/metrics": "figures for Prometheus",
    "/health/ready": "whether it accepts work",
}
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
_QUALITY = re.compile(r"\s*q\s*=\s*(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)\s*", re.IGNORECASE)


class FrontPage:
    """Answers `GET /`; it links to those of `DESCRIPTIONS` that are in `paths`.

    Where the console is one of them, browsers are sent on to it.
    """

    def __init__(self, *, paths: Sequence[str]) -> None:
        self._links = {path: text for path, text in DESCRIPTIONS.items() if path in paths}

    async def show(self, request: ApiRequest) -> Response:
        """The page or the way to the console, or JSON; also where the service is not ready, which it says."""
        missing = list(await request.deps.ready())
        version = request.deps.version
        state = "ready" if not missing else "not_ready"
        if not prefers_html(header(request.scope, b"accept")):
            data = {"name": NAME, "version": version, "status": state, "missing": missing}
            return succeed({**data, "links": self._links}, {"vary": "accept", "cache-control": "no-cache"})
        if CONSOLE in self._links:
            address = f"{CONSOLE.removeprefix('/')}/"
            return RedirectResponse(
                address, HTTPStatus.SEE_OTHER, {"vary": "accept", "cache-control": "no-cache"}
            )
        content = _write(version, missing, self._links, base_of(request))
        return Response(content, 200, {**headers(), "vary": "accept"}, "text/html; charset=utf-8")


def prefers_html(accept: str | None) -> bool:
    """Whether `Accept` names HTML, and nothing that is JSON before it (RFC 9110, section 12.5.1).

    `*/*` alone is no browser.
    """
    qualities = {"text/html": 0.0, "application/json": 0.0}
    for part in (accept or "").split(","):
        name, *parameters = part.split(";")
        kind = name.strip().lower().replace("application/xhtml+xml", "text/html")
        if kind in qualities:
            given = [float(found[1]) for one in parameters if (found := _QUALITY.fullmatch(one))]
            qualities[kind] = max(qualities[kind], given[0] if given else 1.0)
    return 0 < qualities["text/html"] >= qualities["application/json"]


def base_of(request: ApiRequest) -> str:
    """The address under which the caller has found this service, as far as it is one; for examples."""
    host = header(request.scope, b"host") or ""
    return f"{request.scope.get('scheme', 'http')}://{host if _HOST.fullmatch(host) else '127.0.0.1:8000'}"


def _write(version: str, missing: Sequence[str], links: Mapping[str, str], base: str) -> bytes:
    rows = ((tag("a", tag("code", path), href=path), text) for path, text in links.items())
    return page(
        NAME,
        tag(
            "main",
            tag("h1", NAME),
            tag("p", WHAT),
            tag("p", "Version ", tag("code", version), " ", _state(missing)),
            tag("h2", "Addresses"),
            table(("address", "shows"), rows),
            tag("h2", "A first job"),
            tag("p", "It fires every 30 seconds and asks this service whether it is alive."),
            tag("pre", tag("code", _first_job(base))),
            tag("p", "Then look at what became of it, and destroy it:"),
            tag("pre", tag("code", f"curl {base}/executions?jobId=hello\ncurl -X DELETE {base}/jobs/hello")),
            tag(
                "p",
                join("With a key in the settings add ", tag("code", "-H 'Authorization: Bearer KEY'"), "."),
            ),
            class_="narrow",
            id="content",
        ),
    )


def _state(missing: Sequence[str]) -> Html:
    if missing:
        return tag("span", f"not ready: {', '.join(missing)}", class_="state")
    return tag("span", "ready", class_="state")


def _first_job(base: str) -> str:
    return (
        f"curl {base}/jobs/hello -H 'Content-Type: application/json' -d '{{\n"
        '  "jobName": "Hello",\n'
        '  "timer": {"dueTime": "0s", "period": "30s"},\n'
        f'  "request": [{{"method": "GET", "url": "{base}/health/live"}}]\n'
        "}'"
    )
