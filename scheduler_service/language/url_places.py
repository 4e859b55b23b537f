"""The places in a URL, and what each may contain (SPEC section 4, RFC 3986 section 3)."""

import re
from enum import StrEnum
from urllib.parse import quote

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.texts import scrub

SCHEMES = ("http", "https", "service", "queue", "topic", "system")
"""The schemes of SPEC section 9, and that of system jobs."""

OFFERED = ("http", "https", "service")
"""Those that every url may have; a step may have `queue` too, a notification on Dapr `topic`."""

SHOWN_MAX = 80
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_SEPARATOR = re.compile(r"[/?#]")
_HOST = re.compile(
    r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z0-9-]+(?=:\d))(?::\d{1,5})?(?:[/?#]|$)"
)
_UNSAFE = re.compile(r"[^\x21-\x7e]+")
_OPEN_ESCAPE = re.compile(r"%(?=[0-9A-Fa-f]?\Z)")


class ValuePlace(StrEnum):
    """The place of a value; `JOINT`, `LATER`: after a leading variable, which may contain any part."""

    START = "start"
    SCHEME = "scheme"
    AUTHORITY = "authority"
    JOINT = "joint"
    LATER = "later"
    PATH = "path"
    QUERY = "query"
    FRAGMENT = "fragment"


def place_after(prefix: str, *, opened: bool) -> ValuePlace:
    """The place after `prefix`; `opened`: the url begins with a variable of the environment."""
    if not prefix:
        return ValuePlace.START
    scheme = _SCHEME.match(prefix)
    rest = prefix[scheme.end() :] if scheme else ""
    if opened and not rest.startswith("//"):
        return ValuePlace.LATER if _SEPARATOR.search(prefix) else ValuePlace.JOINT
    if not rest.startswith("/"):
        return ValuePlace.SCHEME
    tail = _behind_authority(rest)
    if tail is None:
        return ValuePlace.AUTHORITY
    if "#" in tail:
        return ValuePlace.FRAGMENT
    return ValuePlace.QUERY if "?" in tail else ValuePlace.PATH


def check_start(prefix: str, *, offered: tuple[str, ...]) -> None:
    """Refuses a url whose literal beginning has no known scheme, no host, or user information.

    `prefix` is the url with a letter in place of each value, `offered` the schemes that the message names.
    Raises ExpressionError.
    """
    scheme = _SCHEME.match(prefix)
    if not scheme or scheme.group()[:-1].lower() not in SCHEMES:
        known = ", ".join(f"{name}://" for name in offered)
        text = f"a url begins with one of {known} or service:/{_suggest(prefix)}"
        raise ExpressionError(text, column=0)
    rest = prefix[scheme.end() :]
    if scheme.group().lower() == "service:" and rest.startswith("/") and not rest.startswith("//"):
        return
    authority = _SEPARATOR.split(rest[2:], maxsplit=1)[0]
    if not rest.startswith("//") or not authority:
        raise ExpressionError(f"the url has no host after {scheme.group()}", column=scheme.end())
    if "@" in authority:
        raise ExpressionError("a url cannot contain user information; use a header", column=scheme.end())


def _suggest(prefix: str) -> str:
    """The value, with `http://` where it begins with a host and a port."""
    shown = prefix if len(prefix) <= SHOWN_MAX else f"{prefix[:SHOWN_MAX]}…"
    meant = f"; did you mean http://{shown}?" if _HOST.match(prefix) else ""
    return f", not {shown!r}{meant}"


def encode_literal(literal: str, prefix: str, *, opened: bool) -> str:
    """A literal part of a url after `prefix`: spaces and non-ASCII letters are percent-encoded.

    Raises ExpressionError on a space in the authority.
    """
    whole = prefix + literal
    start = 0 if opened else max(_path_start(whole) - len(prefix), 0)
    if " " in literal[:start]:
        raise ExpressionError("the host of a url cannot contain a space")
    return literal[:start] + _UNSAFE.sub(lambda found: quote(scrub(found.group())), literal[start:])


def close_escape(literal: str) -> str:
    """A literal part before a value, whose letters would else complete an escape, as `%2${a}` to `%2e`."""
    return _OPEN_ESCAPE.sub("%25", literal)


def encode_value(text: str) -> str:
    """A value percent-encoded as data of a path segment, a query or a fragment."""
    return quote(scrub(text), safe="")


def _behind_authority(rest: str) -> str | None:
    """What follows the authority in `rest`, which begins with a slash; None: `rest` ends within it."""
    if not rest.startswith("//"):
        return None if rest == "" else rest
    separator = _SEPARATOR.search(rest, 2)
    return rest[separator.start() :] if separator else None


def _path_start(url: str) -> int:
    scheme = _SCHEME.match(url)
    start = scheme.end() if scheme else 0
    if url.startswith("//", start):
        separator = _SEPARATOR.search(url, start + 2)
        return separator.start() if separator else len(url)
    return start
