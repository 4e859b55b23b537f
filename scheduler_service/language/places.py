"""Where in a URL something stands, and what may stand there (SPEC section 4, RFC 3986 section 3)."""

import re
from enum import StrEnum
from urllib.parse import quote

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.values import scrub

SCHEMES = ("http", "https", "service", "queue", "system")
"""The schemes of SPEC section 9, and that of the system jobs."""

NO_SCHEME = f"a url begins with one of {', '.join(name + '://' for name in SCHEMES)} or service:/"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_SEPARATOR = re.compile(r"[/?#]")
_UNSAFE = re.compile(r"[^\x21-\x7e]+")


class Place(StrEnum):
    """Where a value stands; `JOINT`, `LATER`: behind a variable that opens the url and may hold any part."""

    START = "start"
    SCHEME = "scheme"
    AUTHORITY = "authority"
    JOINT = "joint"
    LATER = "later"
    PATH = "path"
    QUERY = "query"
    FRAGMENT = "fragment"


def place_after(prefix: str, *, opened: bool) -> Place:
    """Where something stands behind `prefix`; `opened`: the url begins with a variable of the environment."""
    if not prefix:
        return Place.START
    scheme = _SCHEME.match(prefix)
    rest = prefix[scheme.end() :] if scheme else ""
    if opened and not rest.startswith("//"):
        return Place.LATER if _SEPARATOR.search(prefix) else Place.JOINT
    if not rest.startswith("/"):
        return Place.SCHEME
    tail = _behind_authority(rest)
    if tail is None:
        return Place.AUTHORITY
    if "#" in tail:
        return Place.FRAGMENT
    return Place.QUERY if "?" in tail else Place.PATH


def check_start(prefix: str) -> None:
    """Refuses a url whose literal beginning has no known scheme, no host, or user information.

    `prefix` is the url with a letter for each value. Raises ExpressionError.
    """
    scheme = _SCHEME.match(prefix)
    if not scheme or scheme.group()[:-1].lower() not in SCHEMES:
        raise ExpressionError(NO_SCHEME, column=0)
    rest = prefix[scheme.end() :]
    if scheme.group().lower() == "service:" and rest.startswith("/") and not rest.startswith("//"):
        return
    authority = _SEPARATOR.split(rest[2:], maxsplit=1)[0]
    if not rest.startswith("//") or not authority:
        raise ExpressionError(f"the url names no host behind {scheme.group()}", column=scheme.end())
    if "@" in authority:
        raise ExpressionError("a url cannot hold user information; use a header", column=scheme.end())


def encode_literal(literal: str, prefix: str, *, opened: bool) -> str:
    """A literal part of a url behind `prefix`: spaces and letters beyond ASCII are percent-encoded.

    Raises ExpressionError on a space in the authority.
    """
    whole = prefix + literal
    start = 0 if opened else max(_path_start(whole) - len(prefix), 0)
    if " " in literal[:start]:
        raise ExpressionError("a space cannot stand in the host of a url")
    return literal[:start] + _UNSAFE.sub(lambda found: quote(scrub(found.group())), literal[start:])


def encode_value(text: str) -> str:
    """A value percent-encoded so that it is data in a path segment, a query and a fragment alike."""
    return quote(scrub(text), safe="")


def _behind_authority(rest: str) -> str | None:
    """What follows the authority in `rest`, which begins with a slash; None while it is still open."""
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
