"""Small proxies: one shows a service below a path, as nginx would with `proxy_pass`, one signs people in."""

from collections.abc import Callable

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

OF_ONE_CONNECTION = {"connection", "content-encoding", "content-length", "transfer-encoding"}


def below(prefix: str) -> Callable[[str], ASGIApp]:
    """The proxy of a service's address: it takes `prefix` off, says so, and answers 404 elsewhere."""

    def make(url: str) -> ASGIApp:
        async def pass_on(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive)
            path = request.url.path.removeprefix(prefix)
            if not request.url.path.startswith(f"{prefix}/"):
                await Response("not of this service", 404)(scope, receive, send)
                return
            headers = {**request.headers, "x-forwarded-prefix": prefix, "x-forwarded-for": "192.0.2.1"}
            headers |= {"host": "inner.example", "x-forwarded-host": request.headers["host"]}
            response = await _send(request, httpx.URL(url).copy_with(path=path), headers)
            await response(scope, receive, send)

        return pass_on

    return make


class SingleSignOn:
    """A proxy in front of a service that says who has signed in at it: `user`, None is nobody."""

    HEADER = "X-Forwarded-User"

    def __init__(self) -> None:
        self.user: str | None = None

    def __call__(self, url: str) -> ASGIApp:
        async def pass_on(scope: Scope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive)
            headers = {name: value for name, value in request.headers.items() if name != self.HEADER.lower()}
            said = {} if self.user is None else {self.HEADER: self.user}
            inner = httpx.URL(url).copy_with(path=request.url.path)
            await (await _send(request, inner, headers | said))(scope, receive, send)

        return pass_on


async def _send(request: Request, inner: httpx.URL, headers: dict[str, str]) -> Response:
    inner = inner.copy_with(query=request.url.query.encode())
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.request(request.method, inner, headers=headers, content=await request.body())
    kept = [(name, value) for name, value in answer.headers.multi_items() if name not in OF_ONE_CONNECTION]
    response = Response(answer.content, answer.status_code)
    response.raw_headers += [(name.encode(), value.encode("latin-1")) for name, value in kept]
    return response
