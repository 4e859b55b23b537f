"""The front page `/`: browsers go on to the console; JSON for all others, which says what answers here."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from starlette.responses import RedirectResponse, Response

from scheduler_service.api.bodies import header, read_preferences
from scheduler_service.api.pages import CONSOLE
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed

NAME = "Punctual"
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


class FrontPage:
    """Answers `GET /`; it links to those of `DESCRIPTIONS` that are in `paths`.

    Where the console is one of them, browsers are sent on to it.
    """

    def __init__(self, *, paths: Sequence[str]) -> None:
        self._links = {path: text for path, text in DESCRIPTIONS.items() if path in paths}

    async def show(self, request: ApiRequest) -> Response:
        """The way to the console, or JSON; also where the service is not ready, which it says."""
        missing = list(await request.deps.shown.ready())
        version = request.deps.shown.version
        state = "ready" if not missing else "not_ready"
        if CONSOLE not in self._links or not prefers_html(header(request.scope, b"accept")):
            data = {"name": NAME, "version": version, "status": state, "missing": missing}
            return succeed({**data, "links": self._links}, {"vary": "accept", "cache-control": "no-cache"})
        address = f"{CONSOLE.removeprefix('/')}/"
        return RedirectResponse(
            address, HTTPStatus.SEE_OTHER, {"vary": "accept", "cache-control": "no-cache"}
        )


def prefers_html(accept: str | None) -> bool:
    """Whether `Accept` names HTML, and nothing that is JSON before it (RFC 9110, section 12.5.1).

    `*/*` alone is no browser.
    """
    named = read_preferences(accept)
    html = max(named.get("text/html", 0), named.get("application/xhtml+xml", 0))
    return 0 < html >= named.get("application/json", 0)
