"""How much is kept of what a target or an instance says of its work (SPEC section 5.3).

A longer text is cut to the limit, in characters, and its last one is `MARK`. What is kept of an execution has
so a size of its own, whoever its target is.
"""

from typing import overload

ERROR_CHARACTERS, PROGRESS_CHARACTERS, MESSAGE_CHARACTERS = 256, 64, 4_096
MARK = "…"


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


@overload
def cut_message(text: str) -> str: ...
@overload
def cut_message(text: str | None) -> str | None: ...
def cut_message(text: str | None) -> str | None:
    """A message."""
    return _cut(text, MESSAGE_CHARACTERS)


def _cut(text: str | None, limit: int) -> str | None:
    return text if text is None or len(text) <= limit else text[: limit - 1] + MARK
