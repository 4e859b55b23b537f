"""Serves the console: its page, and its files for ever under a hash of them all."""

import asyncio
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from html import escape
from http import HTTPStatus

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from scheduler_service import __version__
from scheduler_service.api import CONSOLE
from scheduler_service.api.bodies import header
from scheduler_service.api.session_cookies import public_prefix
from scheduler_service.console.assets import ConsoleAsset, ConsoleFiles, own_files, read_files
from scheduler_service.console.modules import ConsoleError, VueMissing
from scheduler_service.hosts.work_thread import work_apart

ASSETS = "a/"
PAGES = ("", "index.html")
FOR_EVER = "public, max-age=31536000, immutable"
EARLIER = "This file is of another version of Punctual than the one that runs now: reload the page.\n"
HTML = "text/html; charset=utf-8"
_GZIP = re.compile(r"(?:^|,)\s*(?:x-)?gzip\s*(?:;\s*q=(?P<quality>[\d.]+)\s*)?(?=,|$)", re.IGNORECASE)
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'; object-src 'none'"
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cross-origin-opener-policy": "same-origin",
}
"""Those of the page: nothing is loaded from elsewhere, and no other page shows this one in a frame."""
FILE_HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}
"""Those of files and refusals, short because they are many: opened by itself none of them runs anything."""
LACKING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Punctual</title></head><body><main>
<h1>The console cannot be shown</h1>
<p>{reason}</p>
<p>The API answers as usual: <a href="{base}../docs">its reference</a>.</p>
</main></body></html>
"""


def console_mounts() -> Mapping[str, ASGIApp]:
    """The console of this version, for `create_api`."""
    return {CONSOLE: create_console(version=__version__)}


def create_console(
    *, version: str, read: Callable[[], ConsoleFiles] = lambda: read_files(own_files())
) -> ASGIApp:
    """The console as an ASGI application, to be mounted below any path.

    `read` reads the files at the first request, beside the loop. They need no key: no secret is in them.
    """
    return _Console(version=version, read=read)


class _Console:
    path = CONSOLE
    """Its route in the access log."""

    def __init__(self, *, version: str, read: Callable[[], ConsoleFiles]) -> None:
        self._version = version
        self._read = read
        self._found: ConsoleFiles | None = None
        self._reading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers GET and HEAD."""
        if scope["type"] != "http":
            return
        response = await self._answer(scope)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response:
        if scope["method"] not in ("GET", "HEAD"):
            message = "the console has the methods GET and HEAD; to change something use the API\n"
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED, message, {"allow": "GET, HEAD"})
        try:
            found = self._found or await self._load()
        except ConsoleError as error:
            return _lack(error, scope)
        path = str(scope["path"]).removeprefix(str(scope.get("root_path", ""))).lstrip("/")
        if path.startswith(ASSETS):
            return _serve(found, path.removeprefix(ASSETS), scope)
        if path not in PAGES:
            return _plain(
                HTTPStatus.NOT_FOUND, f"there is no {path[:80]!r} here; go to {base_of(scope)}\n", {}
            )
        page = write_page(found, base=base_of(scope), version=self._version)
        kept = {**HEADERS, "cache-control": "no-cache", "vary": "x-forwarded-prefix"}
        return _tagged(page, HTML, sha256(page).hexdigest()[:32], kept, scope)

    async def _load(self) -> ConsoleFiles:
        async with self._reading:
            if self._found is None:
                self._found = await work_apart(self._read)
            return self._found


def _serve(found: ConsoleFiles, path: str, scope: Scope) -> Response:
    """A file by its name, which is looked up and never a path on the disk."""
    given, _, name = path.partition("/")
    asset = found.assets.get(name)
    if given != found.hash or asset is None:
        return _plain(HTTPStatus.NOT_FOUND, EARLIER, {"cache-control": "no-store"})
    return _send(asset, f"{found.hash}/{name}", scope)


def _send(asset: ConsoleAsset, tag: str, scope: Scope) -> Response:
    kept = {**FILE_HEADERS, "cache-control": FOR_EVER, "vary": "accept-encoding"}
    if not _takes_gzip(header(scope, b"accept-encoding") or ""):
        return _tagged(asset.content, asset.media_type, tag, kept, scope)
    kept["content-encoding"] = "gzip"
    return _tagged(asset.compressed, asset.media_type, f"{tag}+gzip", kept, scope)


def _tagged(content: bytes, media_type: str, tag: str, kept: Mapping[str, str], scope: Scope) -> Response:
    """`content` with its ETag, or 304 where the browser has it already (RFC 9110, section 13.1.2)."""
    headers = {**kept, "etag": f'"{tag}"'}
    known = (header(scope, b"if-none-match") or "").split(",")
    if f'"{tag}"' in (one.strip().removeprefix("W/") for one in known):
        headers.pop("content-encoding", None)
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


def _takes_gzip(accepted: str) -> bool:
    found = _GZIP.search(accepted)
    return found is not None and (found["quality"] is None or found["quality"].strip("0.") != "")


def _plain(status: HTTPStatus, text: str, headers: Mapping[str, str]) -> Response:
    return Response(text, status, {**FILE_HEADERS, **headers}, "text/plain; charset=utf-8")


def _lack(error: ConsoleError, scope: Scope) -> Response:
    """A page that says what is missing; it is looked for again at the next request."""
    lacks = isinstance(error, VueMissing)
    status = HTTPStatus.SERVICE_UNAVAILABLE if lacks else HTTPStatus.INTERNAL_SERVER_ERROR
    content = write_lacking(str(error), base=base_of(scope))
    return Response(content, status, {**HEADERS, "cache-control": "no-store"}, HTML)


def base_of(scope: Scope) -> str:
    """The path of the console as browsers see it, with a slash at its end; all links are relative to it."""
    outer = str(scope.get("app_root_path", ""))
    own = str(scope.get("root_path", "")).removeprefix(outer)
    return f"{public_prefix(scope)}{own}/"


def write_page(found: ConsoleFiles, *, base: str, version: str) -> bytes:
    """The page of the template `index.html`.

    `{{base}}` there is the console's path, `{{assets}}` that of its files below it, both with a slash
    at their end.
    """
    values = {"base": base, "assets": f"a/{found.hash}/", "version": version}
    text = found.index
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", escape(value))
    return text.encode()


def write_lacking(reason: str, *, base: str) -> bytes:
    """A page for who cannot be shown the console, with the reason and its remedy."""
    return LACKING.format(reason=escape(reason), base=escape(base)).encode()
