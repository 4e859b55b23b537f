"""Texts as logs, events and alerts may have them: one line, addresses without login, path and query."""

import re

from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.domain.texts import MARK, cut

LONGEST = 200
OF_TARGETS = (FailureType.BUSINESS, FailureType.CHECK, FailureType.PARTIAL)
"""Failures whose message a target or a part of it wrote."""
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
    return cut(first, limit)


def hide_quoted(text: str) -> str:
    """`text` without what is quoted in it: our messages quote values, and those may be anybody's."""
    return _QUOTED.sub(f"'{MARK}'", text)


def safe_message(failure: AttemptEnded | None) -> str | None:
    """The message of a failed attempt for the log, which has no part of a body: none that a target wrote."""
    if failure is not None and failure.failure_type is FailureType.HTTP:
        return f"the target answered {failure.error}"
    return None if failure is None or failure.failure_type in OF_TARGETS else told_message(failure)


def told_message(failure: AttemptEnded | None) -> str | None:
    """The same for events and alerts, which lead with what the target said (SPEC section 5)."""
    text = None if failure is None else failure.message
    if failure is None or text is None:
        return None
    return shorten(hide_quoted(text) if failure.failure_type is FailureType.TEMPLATE else text)
