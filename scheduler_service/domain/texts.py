"""Texts that come from outside, and can be stored."""

from typing import overload

MARK = "…"
"""Stands where a text was cut."""


def scrub(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD, so that it can be encoded in UTF-8.

    JSON may have one as an escape (RFC 8259, section 8.2); no store, no request and no log can.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@overload
def cut(text: str, limit: int) -> str: ...
@overload
def cut(text: str | None, limit: int) -> str | None: ...
def cut(text: str | None, limit: int) -> str | None:
    """The text, at most `limit` characters long; the last one of a longer text is `MARK`."""
    return text if text is None or len(text) <= limit else text[: limit - 1] + MARK
