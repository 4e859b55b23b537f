"""The console's page: with the base of its links, and its headers."""

from collections.abc import Mapping
from html import escape

from starlette.types import Scope

from scheduler_service.api.prefix import public_prefix
from scheduler_service.console.files import ConsoleFiles

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
