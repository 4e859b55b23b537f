"""Warnings about a valid definition that probably has a mistake (SPEC sections 5, 6 and 7)."""

from collections.abc import Iterator

from client_sdk.models import JobDefinition
from scheduler_service.domain.errors import Problem
from scheduler_service.engine.notification_events import FINAL
from scheduler_service.engine.retry import NEVER_RETRIED

CLASSES = frozenset({"4xx", "5xx"})
CODES = frozenset(
    {"timeout", "template", "check", "no_instance", "egress", "response_too_large", "lost", "cancelled"}
)
"""The error codes of SPEC section 5 that are words; a business code may be any other."""

EVENTS = FINAL | {"inprogress", "succeed", "failed", "timeout"}


def find_warnings(definition: JobDefinition) -> Iterator[Problem]:
    """The warnings of a definition except those of its timer, each with its pointer."""
    yield from _about_check(definition)
    for index, policy in enumerate(definition.retry):
        pointer = f"/retry/{index}/errorEquals"
        for code in sorted(policy.errors & NEVER_RETRIED):
            yield Problem(pointer, "never_retried", f"{code} is never retried; remove it")
        yield from _about_spelling(policy.errors, CLASSES | CODES, pointer)
    for index, entry in enumerate(definition.notification):
        yield from _about_spelling(entry.keys, EVENTS, f"/notification/{index}/stateEquals")
    yield from _about_final(definition)


def _about_check(definition: JobDefinition) -> Iterator[Problem]:
    if definition.check_url is not None and not definition.asynchronous:
        message = "checkUrl is ignored: the job is synchronous; add async true, or remove it"
        yield Problem("/checkUrl", "check_ignored", message)


def _about_spelling(given: frozenset[str], known: frozenset[str], pointer: str) -> Iterator[Problem]:
    """Codes are case-sensitive: `5XX` is a business code that nothing raises."""
    meant = {name.lower(): name for name in known}
    for code in sorted(given - known):
        if code.lower() in meant:
            message = f"{code!r} is not an error code; write {meant[code.lower()]!r}"
            yield Problem(pointer, "spelling", message)


def _about_final(definition: JobDefinition) -> Iterator[Problem]:
    entries = definition.notification
    covered = {key for key in FINAL for entry in entries if not entry.keys or key in entry.keys}
    missing = sorted(FINAL - covered)
    if entries and missing:
        them = "it" if len(missing) == 1 else "both"
        text = f"no entry gets {' and '.join(missing)}; add {them} to stateEquals, or leave stateEquals out"
        yield Problem("/notification", "no_final_notification", text)
