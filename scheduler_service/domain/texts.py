"""Texts that come from outside, and can be stored.

Of what a target or an instance says of its work, so much is kept as `cut_…` say (SPEC section 5.3): what is
kept of an execution has so a size of its own, whoever its target is. Tokens of feedback URLs in it are
masked: these texts are shown in lists, notifications and logs.
"""

import re
from typing import TypeVar

from scheduler_service.domain.token_masks import mask_tokens

Said = TypeVar("Said", str, str | None)
MARK = "…"
"""Stands where a text was cut."""
ERROR_CHARACTERS, PROGRESS_CHARACTERS, MESSAGE_CHARACTERS, STATUS_CHARACTERS = 256, 64, 4_096, 80


def scrub(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD, so that it can be encoded in UTF-8.

    JSON may have one as an escape (RFC 8259, section 8.2); no store, no request and no log can.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def cut(text: Said, limit: int) -> Said:
    """The text, at most `limit` characters long; the last one of a longer text is `MARK`."""
    return text if text is None or len(text) <= limit else text[: limit - 1] + MARK


def cut_error(text: Said) -> Said:
    """An error code; it is compared with those of `retry` as it is after the cut."""
    return _cut(text, ERROR_CHARACTERS)


def cut_progress(text: str | None) -> str | None:
    """A progress."""
    return _cut(text, PROGRESS_CHARACTERS)


def cut_status(text: str) -> str:
    """A status that is not known, for the message that says so."""
    return _cut(text, STATUS_CHARACTERS)


def cut_message(text: Said) -> Said:
    """A message."""
    return _cut(text, MESSAGE_CHARACTERS)


def _cut(text: Said, limit: int) -> Said:
    if text is None:
        return None
    return cut(mask_tokens(scrub(cut(text, limit))), limit)


_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,15})?)"
_SHARE = re.compile(rf"{_NUMBER}/{_NUMBER}")
_PERCENT = re.compile(rf"{_NUMBER}%")
_PLACES = 4


def progress_fraction(progress: str | None) -> float | None:
    """From 0 to 1, with four places; more than 1 is cut to 1. None: `progress` has neither form."""
    if progress is None:
        return None
    if percent := _PERCENT.fullmatch(progress):
        return _divide(float(percent[1]), 100.0)
    if share := _SHARE.fullmatch(progress):
        return _divide(float(share[1]), float(share[2]))
    return None


def _divide(done: float, whole: float) -> float | None:
    return round(min(done / whole, 1.0), _PLACES) if whole else None
