"""Texts as the log may have them: cut, on one line, addresses without login, path and query."""

import re

LONGEST = 200
MARK = "…"
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/?#'\"]*@)?([^\s/?#'\"]*)[^\s'\"]*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def host_of(url: str) -> str | None:
    """Host and port of an address, or the name of a service; None: it has none."""
    found = _ADDRESS.match(url)
    return found[2] or None if found is not None else None


def shorten(text: str, limit: int = LONGEST) -> str:
    """The first line of `text`, its addresses reduced to scheme and host."""
    # Cut before, too: a text of any length costs no more than a long line.
    first = text[: 4 * limit].strip().partition("\n")[0]
    if "://" in first:
        first = _ADDRESS.sub(r"\1\2", first)
    return first if len(first) <= limit else first[: limit - 1] + MARK


def hide_quoted(text: str) -> str:
    """`text` without what is quoted in it: our messages quote values, and those may be anybody's."""
    return _QUOTED.sub(f"'{MARK}'", text)
