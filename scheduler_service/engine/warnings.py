"""Warnings about a valid definition that probably has a mistake (SPEC sections 5, 6, 7 and 13)."""

from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice

from client_sdk.models import JobDefinition
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.moments import SECOND
from scheduler_service.engine.notification_events import FINAL
from scheduler_service.engine.parts.step_options import read_options
from scheduler_service.engine.retry import NEVER_RETRIED
from scheduler_service.language.conditions import find_slips

CLASSES = frozenset({"4xx", "5xx"})
CODES = frozenset(
    {
        "timeout",
        "template",
        "check",
        "no_instance",
        "instance_lost",
        "egress",
        "response_too_large",
        "lost",
        "cancelled",
        "partial",
        "queue_timeout",
        "unsuccessful",
    }
)
"""The error codes of SPEC section 5 that are words; a business code may be any other."""

NEAR = 0.8
KEY_MAX = 64
KEYS_COMPARED = 20
"""How many unknown keys of an entry are compared: comparing one takes 20 µs."""
EVENTS = FINAL | {"inprogress", "succeed", "failed", "timeout"}

UNTOLD = {
    ("finalFailed",): "no notification says that an execution has failed for good",
    ("finalSucceed",): "no notification says that an execution has succeeded",
    ("finalFailed", "finalSucceed"): "no notification says how an execution ended",
}
"""What is not sent where these events match no entry."""


def find_warnings(definition: JobDefinition, longest_call: int) -> Iterator[Problem]:
    """The warnings of a definition except those of its timer, each with its pointer.

    `longest_call`: after how many ms the service ends a call.
    """
    yield from _about_check(definition)
    yield from _about_conditions(definition)
    for index, policy in enumerate(definition.retry):
        pointer = f"/retry/{index}/errorEquals"
        for code in sorted(policy.errors & NEVER_RETRIED):
            yield Problem(pointer, "never_retried", f"{code} is never retried; remove it")
        yield from _about_spelling(policy.errors, CLASSES | CODES, pointer)
    for index, entry in enumerate(definition.notification):
        yield from _about_events(entry.keys, f"/notification/{index}/stateEquals")
    yield from _about_final(definition)
    yield from _about_claims(definition)
    yield from _about_calls(definition, longest_call / SECOND)


def _about_check(definition: JobDefinition) -> Iterator[Problem]:
    if definition.check_url is not None and not definition.asynchronous:
        message = "checkUrl is ignored: the job is synchronous; add async true, or remove it"
        yield Problem("/checkUrl", "check_ignored", message)


def _about_conditions(definition: JobDefinition) -> Iterator[Problem]:
    steps = [(f"/request/{index}", step) for index, step in enumerate(definition.request)]
    entries = [(f"/notification/{index}", entry) for index, entry in enumerate(definition.notification)]
    for pointer, target in (*steps, ("/checkUrl", definition.check_url), *entries):
        if target is None or target.success_when is None:
            continue
        for slip in find_slips(target.success_when):
            yield Problem(f"{pointer}/successWhen", slip.code, slip.message)


def _about_spelling(given: frozenset[str], known: frozenset[str], pointer: str) -> Iterator[Problem]:
    """Codes are case-sensitive: `5XX` is a business code that nothing raises."""
    meant = {name.lower(): name for name in known}
    for code in sorted(given - known):
        if code.lower() in meant:
            message = f"{code!r} is not an error code; write {meant[code.lower()]!r}"
            yield Problem(pointer, "spelling", message)


def _about_events(given: frozenset[str], pointer: str) -> Iterator[Problem]:
    """A code of the business may be any text, so only near misses of the fixed keys are told."""
    meant = {name.lower(): name for name in EVENTS}
    for key in islice(sorted(given - EVENTS), KEYS_COMPARED):
        near = get_close_matches(key[:KEY_MAX].lower(), sorted(meant), n=1, cutoff=NEAR)
        if near:
            message = f"{key[:KEY_MAX]!r} is not an event of the scheduler; did you mean {meant[near[0]]!r}?"
            yield Problem(pointer, "spelling", message)


def _about_final(definition: JobDefinition) -> Iterator[Problem]:
    entries = definition.notification
    covered = {key for key in FINAL for entry in entries if not entry.keys or key in entry.keys}
    missing = sorted(FINAL - covered)
    if entries and missing:
        them = "it" if len(missing) == 1 else "both"
        text = (
            f"no entry gets {' and '.join(missing)}: {UNTOLD[tuple(missing)]}; this may be meant, else add "
            f"{them} to stateEquals"
        )
        yield Problem("/notification", "no_final_notification", text)


def _about_claims(definition: JobDefinition) -> Iterator[Problem]:
    """The limit and the first lease both begin with the first claim: a retry needs what is left after it."""
    limit = definition.timeout_seconds
    if not limit:
        return
    for index, step in enumerate(definition.request):
        if not step.url.lower().startswith("queue:"):
            continue
        options = read_options(step)
        lease, delay = options.lease / SECOND, options.delay / SECOND
        if options.retries and limit <= lease + delay:
            text = (
                f"a worker that dies has no successor: timeoutSeconds {limit:g} ends before leaseSeconds "
                f"{lease:g} and unexpectedRetryDelaySeconds {delay:g} have passed; give timeoutSeconds more "
                f"than {lease + delay:g}, a shorter leaseSeconds, or maxUnexpectedRetries 0"
            )
            yield Problem(f"/request/{index}", "no_second_claim", text)


def _about_calls(definition: JobDefinition, longest: float) -> Iterator[Problem]:
    """The work of a synchronous call ends with it; `longest` in seconds."""
    steps, limit = definition.request, definition.timeout_seconds
    if definition.asynchronous or any(step.url.lower().startswith("queue:") for step in steps):
        return
    usable = longest * len(steps)
    if limit > usable:
        text = (
            f"timeoutSeconds is {limit:g}, but the setting defaults.http_timeout_seconds ends each call "
            f"after {longest:g} s; make longer work asynchronous (async true), raise the setting, or give "
            f"at most {usable:g}"
        )
        yield Problem("/timeoutSeconds", "call_limit", text)
