"""How much is kept of what a target or an instance says of its work (SPEC section 5.3).

A longer text is cut to the limit, in characters, and its last one is `MARK`. What is kept of an execution has
so a size of its own, whoever its target is. Tokens of feedback URLs in it are masked: these texts are shown
in lists, notifications and logs. Half of a surrogate pair, which no store can hold, becomes U+FFFD.
"""

from typing import overload

from scheduler_service.domain.feedback_tokens import mask_tokens
from scheduler_service.domain.texts import cut, scrub

ERROR_CHARACTERS, PROGRESS_CHARACTERS, MESSAGE_CHARACTERS = 256, 64, 4_096
STATUS_CHARACTERS = 80


@overload
def cut_error(text: str) -> str: ...
@overload
def cut_error(text: str | None) -> str | None: ...
def cut_error(text: str | None) -> str | None:
    """An error code; it is compared with those of `retry` as it is after the cut."""
    return _cut(text, ERROR_CHARACTERS)


def cut_progress(text: str | None) -> str | None:
    """A progress."""
    return _cut(text, PROGRESS_CHARACTERS)


def cut_status(text: str) -> str:
    """A status that is not known, for the message that says so."""
    return _cut(text, STATUS_CHARACTERS) or ""


@overload
def cut_message(text: str) -> str: ...
@overload
def cut_message(text: str | None) -> str | None: ...
def cut_message(text: str | None) -> str | None:
    """A message."""
    return _cut(text, MESSAGE_CHARACTERS)


def _cut(text: str | None, limit: int) -> str | None:
    if text is None:
        return None
    return cut(mask_tokens(scrub(cut(text, limit))), limit)
