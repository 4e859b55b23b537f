"""A small proxy that shows a service below a path, as nginx would with `proxy_pass`."""

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
            inner = httpx.URL(url).copy_with(path=path, query=request.url.query.encode())
            async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
                answer = await client.request(
                    request.method, inner, headers=headers, content=await request.body()
                )
            kept = [
                (name, value) for name, value in answer.headers.multi_items() if name not in OF_ONE_CONNECTION
            ]
            response = Response(answer.content, answer.status_code)
            response.raw_headers += [(name.encode(), value.encode("latin-1")) for name, value in kept]
            await response(scope, receive, send)

        return pass_on

    return make
