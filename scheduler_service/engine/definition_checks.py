"""What is refused of a definition when it is posted; one that an earlier version stored goes on with it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from difflib import get_close_matches
from typing import Any

from client_sdk.models import (
    CheckUrl,
    JobDefinition,
    ModelError,
    Notification,
    RequestStep,
    parse_definition,
    write_pointer,
)
from client_sdk.models.definition import FILLED_DUE_TIME
from client_sdk.models.fields import find_unshown
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.domain.replies import Refusal, RefusalCode
from scheduler_service.engine.program import Program, Surroundings, Target, targets_of
from scheduler_service.timing.timer import TimerKind, TimerText, is_period, kind_of

METHODS = frozenset((
    "ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "DELETE", "GET", "HEAD", "LABEL",
    "LINK", "LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE",
    "OPTIONS", "ORDERPATCH", "PATCH", "POST", "PROPFIND", "PROPPATCH", "PUT", "QUERY", "REBIND", "REPORT",
    "SEARCH", "TRACE", "UNBIND", "UNCHECKOUT", "UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
))  # fmt: skip
"""The registered methods of HTTP (RFC 9110 section 16.1.1) that can be sent to a target."""
MOST_LABELS, MOST_HEADERS = 1_000, 1_000
READINGS = 8
NOWHERE = {"url": "http://left-out.invalid"}
FILLED_IN: Mapping[str, object] = {
    **dict.fromkeys(("jobId", "jobName", "creator", "creatorName"), "unread"),
    "request": [NOWHERE],
    **NOWHERE,
}
"""What a stored definition gets for a required member that is not read any more."""
UNKNOWN_SECRET = "unknown_secret"  # noqa: S105 - the code of a problem
TEXTS = ("/timer", "/request/", "/checkUrl", "/cancelUrl", "/notification/")
"""Where templates stand, and moments and periods."""
LONGEST_NAME = 4_000
"""Characters of a `jobName`: as many as the catalogue of a cluster holds, where lists are sorted by it."""
_LITERAL = re.compile(r"(?i:https?)://[^/?#]*")
_BEHIND_QUEUE = re.compile(r"((?i:queue)://(?:[^/?#$]|\$\{[^}]*\}|\$)+)([/?#].*)", re.DOTALL)
Posted = RequestStep | CheckUrl | Notification
USUAL = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


def find_refused(definition: JobDefinition, surroundings: Surroundings) -> Iterator[Problem]:
    """Each problem with its pointer."""
    yield from _check_methods(definition)
    yield from _check_queues(definition)
    yield from _check_numbers(definition)
    yield from _check_names(definition)
    yield from _check_limit(definition)
    yield from _check_secrets(definition, surroundings)
    judge = surroundings.judge_target
    if judge is None:
        return
    for pointer, url in literal_targets(definition):
        reason = judge(url)
        if reason is not None:
            yield Problem(pointer, "egress", f"no request to {url} is let through: {reason}")


def _check_secrets(definition: JobDefinition, surroundings: Surroundings) -> Iterator[Problem]:
    """What `sign` names can sign."""
    judge = surroundings.judge_secret
    if judge is None:
        return
    for pointer, target in posted_targets(definition):
        reason = None if target.sign is None else judge(surroundings.tenant, target.sign)
        if reason is not None:
            yield Problem(f"{pointer}/sign", UNKNOWN_SECRET, reason)


def _check_limit(definition: JobDefinition) -> Iterator[Problem]:
    """No limit is for work that leases, heartbeats or `cancel` end."""
    last = definition.request[-1].url.lower()
    if definition.timeout_seconds or definition.asynchronous or last.startswith("queue:"):
        return
    text = (
        "timeoutSeconds 0 (no limit) is for asynchronous work (async true) and claimed work (a last step "
        "to queue://); give the seconds that an attempt may take"
    )
    yield Problem("/timeoutSeconds", "no_limit", text)


def find_too_many(value: Mapping[str, object]) -> Iterator[Problem]:
    """What `find_refused` says of numbers, for a definition that is not read yet.

    To read 80,000 headers into the model, and to forget them, holds the interpreter for 40 ms in one go.
    """
    yield from _count(value, "", "labels", MOST_LABELS)
    for name in ("checkUrl", "cancelUrl"):
        yield from _count(value.get(name), f"/{name}", "headers", MOST_HEADERS)
    for name in ("request", "notification"):
        posted = value.get(name)
        for index, entry in enumerate(posted if isinstance(posted, list) else ()):
            yield from _count(entry, f"/{name}/{index}", "headers", MOST_HEADERS)


def find_too_long(job_name: str, labels: Mapping[str, str]) -> Iterator[Problem]:
    """What `find_refused` says of the length of members that no shape of the compile cache has."""
    if len(job_name) > LONGEST_NAME:
        text = f"jobName must have at most {LONGEST_NAME} characters, not {len(job_name)}"
        yield Problem("/jobName", "too_long", text)
    if len(labels) > MOST_LABELS:
        yield _too_many("/labels", len(labels), "labels", MOST_LABELS)


def literal_targets(definition: JobDefinition) -> Iterator[tuple[str, str]]:
    """(pointer, `http(s)://HOST[:PORT]`) of each URL whose host is written out and is no service's."""
    for pointer, target in posted_targets(definition):
        if not isinstance(target, Notification) and target.service_name is not None:
            continue
        found = _LITERAL.match(target.url)
        if found is not None and "${" not in found[0]:
            yield f"{pointer}/url", found[0]


def as_accepted_before(definition: JobDefinition) -> JobDefinition:
    """A stored definition as its version read it: a `period` of no known form without `dueTime` was ignored.

    Such a job fired once, and stays what it is.
    """
    timer = definition.timer
    if timer is None or timer.period is None or timer.due_time not in (None, "", FILLED_DUE_TIME):
        return definition
    if is_period(timer.period) or kind_of(TimerText(period=timer.period)) is TimerKind.CRON:
        return definition
    ignored = timer.model_copy(update={"due_time": None, "period": None})
    return definition.model_copy(update={"timer": ignored})


def read_stored(value: Any) -> tuple[JobDefinition, list[Problem]]:
    """A stored definition, and what this version does not read of it any more, which is left out of `value`.

    What it must have and lacks is filled in; no request is sent for that. Raises DefinitionError: it is none.
    """
    left_out: list[Problem] = []
    for _ in range(READINGS):
        try:
            return parse_definition(value, is_json=True), left_out
        except ModelError as error:
            found = [Problem(*problem) for problem in error.problems]
        left_out += found
        for pointer in sorted({problem.pointer for problem in found}, reverse=True):
            _leave_out(value, pointer.split("/")[1:])
    raise DefinitionError(left_out)


def find_further(
    value: Any, wrong: Iterable[str], compile_rest: Callable[[JobDefinition], object]
) -> Iterator[Problem]:
    """What is wrong with the texts of a posted definition whose form is, at the pointers `wrong`.

    These are left out of `value`. Nothing is said of what may follow from that.
    """
    wrong = {"/timer" if pointer.startswith("/timer/") else pointer for pointer in wrong}
    try:
        compile_rest(read_stored(value)[0])
    except DefinitionError as error:
        for one in error.problems:
            follows = any(_is_within(one.pointer, other) or _is_within(other, one.pointer) for other in wrong)
            if one.pointer.startswith(TEXTS) and not follows:
                yield one


def _is_within(pointer: str, other: str) -> bool:
    return f"{pointer}/".startswith(f"{other}/")


def _leave_out(value: Any, path: list[str]) -> None:
    """Takes the member at `path` out of `value` or fills it in; where there is none, that which lacks it."""
    if not path:
        return
    *way, last = (token.replace("~1", "/").replace("~0", "~") for token in path)
    holder = value
    for token in way:
        is_index = isinstance(holder, list) and token.isdecimal() and int(token) < len(holder)
        holder = holder[int(token)] if is_index else holder.get(token) if isinstance(holder, dict) else None
    if isinstance(holder, dict) and (last in holder or last in FILLED_IN):
        holder.pop(last, None)
        if last in FILLED_IN:
            holder[last] = deepcopy(FILLED_IN[last])
    elif isinstance(holder, list) and last.isdecimal() and int(last) < len(holder):
        if way[-1] in ("request", "notification"):
            holder[int(last)] = dict(NOWHERE)  # in its place, so that the others keep theirs
        else:
            holder.pop(int(last))
    else:
        _leave_out(value, path[:-1])


def posted_targets(definition: JobDefinition) -> Iterator[tuple[str, Posted]]:
    """Everything to which requests are sent, with its pointer."""
    for index, step in enumerate(definition.request):
        yield f"/request/{index}", step
    if definition.check_url is not None:
        yield "/checkUrl", definition.check_url
    if definition.cancel_url is not None:
        yield "/cancelUrl", definition.cancel_url
    for index, entry in enumerate(definition.notification):
        yield f"/notification/{index}", entry


def _check_methods(definition: JobDefinition) -> Iterator[Problem]:
    for pointer, target in posted_targets(definition):
        method = target.method
        if method not in METHODS:
            near = get_close_matches(method, USUAL, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"use one of {', '.join(USUAL)}"
            text = f"method {method!r} is not a method of HTTP; {remedy}"
            yield Problem(f"{pointer}/method", "choice", text)


def _check_numbers(definition: JobDefinition) -> Iterator[Problem]:
    """What each execution and each list has to walk through."""
    yield from find_too_long(definition.job_name, definition.labels)
    for pointer, target in posted_targets(definition):
        if len(target.headers) > MOST_HEADERS:
            yield _too_many(f"{pointer}/headers", len(target.headers), "headers", MOST_HEADERS)


def _check_names(definition: JobDefinition) -> Iterator[Problem]:
    """What people are shown of it reads as what it is."""
    texts = {"jobName": definition.job_name, "creator": definition.creator}
    texts["creatorName"] = definition.creator_name
    shown = {f"/{name}": text for name, text in texts.items()}
    for name, value in definition.labels.items():
        shown[write_pointer(["labels", name])] = f"{name}{value}"
    for pointer, text in shown.items():
        if text is not None and (wrong := find_unshown(text)) is not None:
            yield Problem(pointer, "control", f"{pointer[1:]} {wrong}")
    if (wrong := find_unshown(definition.job_description or "", lines=True)) is not None:
        yield Problem("/jobDescription", "control", f"jobDescription {wrong}")


def _count(value: object, pointer: str, name: str, most: int) -> Iterator[Problem]:
    found = value.get(name) if isinstance(value, dict) else None
    if isinstance(found, dict) and len(found) > most:
        yield _too_many(f"{pointer}/{name}", len(found), name, most)


def _too_many(pointer: str, count: int, what: str, most: int) -> Problem:
    return Problem(pointer, "too_many", f"{count} {what} are too many; use at most {most}")


def _check_queues(definition: JobDefinition) -> Iterator[Problem]:
    """A queue has a name alone: a path or query, with or without expressions, would be dropped."""
    for index, step in enumerate(definition.request):
        found = _BEHIND_QUEUE.match(step.url)
        if found is not None:
            queue, dropped = found.groups()
            text = (
                f"url {step.url[:80]!r}: {dropped[:80]!r} reaches nobody, as a queue has only a name; write "
                f"{queue}, and hand the rest to the instance in body"
            )
            yield Problem(f"/request/{index}/url", "invalid", text)


OWN = re.compile(r"(?i:service):(?://\{serviceName\}|(?!//))")
OWN_BEHIND = re.compile(r"((?i:service)://\{serviceGateway\}/)\{serviceName\}(?=[/?#]|$)")
NO_OWNER = (
    "is the service that owns the job, and this job has none: write service://NAME/PATH, or send the header "
    "X-Service with the name of the service"
)


def refuse_ownerless(program: Program, owner: str) -> Refusal | None:
    """Why a job that `owner` owns (empty: no service) may not have this definition, or None."""
    if owner:
        return None
    if not program.notifications and program.check is None and program.cancel is None:
        for step in program.steps:
            if _find_own(step.target) is not None:
                break
        else:
            return None  # as with most: no pointer is written for what is not refused
    for pointer, target in targets_of(program):
        url = _find_own(target)
        if url is not None:
            place = pointer if pointer.endswith("Url") else f"{pointer}/url"
            return Refusal(RefusalCode.INVALID, f"{url[:80]!r} {NO_OWNER}", place)
    return None


def refuse_other_owner(program: Program, owner: str, sender: str) -> Refusal | None:
    """Why `sender` may not create a job with this definition that `owner` has, or None."""
    if not sender or not owner or sender == owner or refuse_ownerless(program, "") is None:
        return None
    return Refusal(
        RefusalCode.CONFLICT,
        f"the job {program.job_id!r} exists with this definition, which calls its owner, and its owner is "
        f"{owner!r}, not {sender!r}; make {sender!r} the owner with POST /jobs/{{jobId}}/update, "
        "or use another jobId",
        "/jobId",
    )


def _find_own(target: Target) -> str | None:
    """The beginning of its URL, if that is one of the service that owns the job."""
    if target.service_name is not None:
        return None
    url = target.url.text or "".join(part for part in target.url.parts[:1] if isinstance(part, str))
    if url[:8].lower() != "service:":
        return None
    return url if OWN.match(url) or OWN_BEHIND.match(url) else None
