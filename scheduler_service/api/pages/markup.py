"""HTML out of texts: what is not marked as HTML is escaped."""

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Mapping
from html import escape

VOID = frozenset({"meta", "link", "br", "hr"})

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #57606a; --paper: #ffffff; --panel: #f4f6f8;
  --line: #d0d7de; --link: #0b57a4; --get: #0b57a4; --post: #116329; --put: #7a4a00; --delete: #a40e26; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9ea7b3; --paper: #0d1117;
  --panel: #161b22; --line: #30363d; --link: #79b8ff; --get: #79b8ff; --post: #7ee787; --put: #f0b866;
  --delete: #ff9a93; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
a { color: var(--link); }
a:focus-visible, summary:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
code, pre { font: 0.875em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
code { overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: 0.75rem 1rem;
  overflow-x: auto; }
h1 { font-size: 1.75rem; margin: 0 0 0.25rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 0.75rem; padding-bottom: 0.3rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 2rem 0 0.25rem; }
h4 { font-size: 0.95rem; margin: 1rem 0 0.25rem; }
p { margin: 0.4rem 0; }
.dim { color: var(--dim); }
table { border-collapse: collapse; width: 100%; margin: 0.3rem 0 0.8rem; font-size: 0.92rem; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.75rem 0.35rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--dim); }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--paper); padding: 0.5rem; }
.wide { display: grid; grid-template-columns: minmax(0, 18rem) minmax(0, 1fr); }
.wide > nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; padding: 1.25rem;
  background: var(--panel); border-right: 1px solid var(--line); font-size: 0.85rem; }
.wide > nav h2 { font-size: 0.95rem; margin: 1.1rem 0 0.2rem; border: 0; padding: 0; }
.wide > nav ul { list-style: none; margin: 0; padding: 0; }
.wide > nav li { margin: 0.15rem 0; overflow-wrap: anywhere; }
.wide > main { padding: 2rem 2.5rem; max-width: 60rem; }
.method { font: 600 0.8em ui-monospace, Menlo, Consolas, monospace; }
.get { color: var(--get); } .post { color: var(--post); } .put { color: var(--put); }
.delete { color: var(--delete); }
section { scroll-margin-top: 1rem; }
@media (max-width: 52rem) { .wide { display: block; }
  .wide > nav { position: static; height: auto; max-height: 40vh; border-right: 0;
    border-bottom: 1px solid var(--line); } .wide > main { padding: 1.25rem; } }
"""


class Html(str):
    """A text that is HTML already."""

    __slots__ = ()


def tag(name: str, *inside: str | Iterable[str], **attributes: str) -> Html:
    """An element. `class_` is the attribute `class`, `aria_label` is `aria-label`.

    An iterable inside stands for its items.
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    begin = "".join(f' {key}="{escape(value)}"' for key, value in named.items())
    if name in VOID:
        return Html(f"<{name}{begin}>")
    return Html(f"<{name}{begin}>{''.join(map(_write, inside))}</{name}>")


def join(*parts: str) -> Html:
    """Parts behind each other, texts among them escaped."""
    return Html("".join(map(_write, parts)))


def prose(text: str) -> Html:
    """A text in which `words` stand between backticks: these are code."""
    parts = text.split("`")
    return join(*(tag("code", part) if index % 2 else part for index, part in enumerate(parts)))


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Html:
    """A table; without rows nothing."""
    body = [tag("tr", (tag("td", cell) for cell in row)) for row in rows]
    if not body:
        return Html("")
    head = tag("tr", (tag("th", heading, scope="col") for heading in headings))
    return tag("table", tag("thead", head), tag("tbody", body))


def page(title: str, *inside: str) -> bytes:
    """A whole page, in UTF-8."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(STYLE)),
    )
    body = tag("body", tag("a", "Skip to the content", href="#content", class_="skip"), *inside)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n".encode()


def headers() -> Mapping[str, str]:
    """Those of every page: it loads nothing, runs nothing, and stands in no frame of another page."""
    digest = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }


def _write(part: str | Iterable[str]) -> str:
    if isinstance(part, Html):
        return part
    if isinstance(part, str):
        return escape(part)
    return "".join(map(_write, part))
