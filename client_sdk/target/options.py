"""Checks the options of `@job`, with a remedy for each refused one (SPEC section 16)."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from client_sdk.errors import DeclarationError
from client_sdk.models.step import QUEUE_MEMBERS, ROUTING_MEMBERS, SENT_MEMBERS, RequestStep

REMEDIES: Mapping[str, str] = {
    "request": "its one step calls the function; further members of that step are given as step={…}",
    "active": "give start_policy='manual' for a job that a person starts",
    "check_url": "how far it is, and its end, are reported by the function: give asynchronous=True",
    "check_rate_seconds": "the function reports its end; there are no checks",
}
PERIOD = "a period is timer={{'period': {text!r}}}", "5m"
CRON = "a schedule is timer={{'period': {text!r}}}", "0 6 * * *"
DELAY = "a delay is timer={{'dueTime': {text!r}, 'period': '0s'}}", "10m"
MOMENT = "one moment is timer={{'dueTime': {text!r}, 'period': '0s'}}", "2030-01-31T09:00:00Z"
LIMIT = "the limit of the work is timeout_seconds={value!r}", 60
RETRIES = "retries are policies: retry=[{{'errorEquals': '*', 'maxAttempts': {value!r}}}]", 3
PAUSE = "a wait is part of a policy: retry=[{{'errorEquals': '*', 'intervalSeconds': {value!r}}}]", 10
AT_ONCE = "executions at once are max_concurrency={value!r}", 1
ZONE = "a zone is part of the timer: timer={{'period': '0 6 * * *', 'timezone': {text!r}}}", "Europe/Berlin"
MANUAL = "a job that a person starts is start_policy='manual'", ""
DISABLED = "a job of which nothing runs is disabled=True", ""
BODY = "arguments are body={{…}}, or the parameters of a trigger", ""
TAGS = "labels={{'key': 'value'}} describe a job, step={{'tags': […]}} chooses instances", ""
ASYNC = "a job that reports its end by feedback is asynchronous=True", ""
ID = "the id of a job is job_id={name!r}", "nightly"
IN_TIMER = "it is a member of the timer, as in timer={{'period': '5m', 'endAt': '2030-01-31T09:00:00Z'}}", ""
OTHER_WORDS: Mapping[str, tuple[str, Any]] = {
    **dict.fromkeys(("every", "interval", "period", "each", "seconds", "minutes", "hours"), PERIOD),
    **dict.fromkeys(("cron", "crontab", "cron_expression", "schedule", "expression"), CRON),
    **dict.fromkeys(("delay", "countdown", "delay_seconds"), DELAY),
    **dict.fromkeys(("at", "when", "eta", "run_at", "run_date", "due_time"), MOMENT),
    **dict.fromkeys(("timeout", "time_limit", "max_seconds"), LIMIT),
    **dict.fromkeys(("retries", "max_attempts", "retry_count", "attempts", "max_retry"), RETRIES),
    **dict.fromkeys(("retry_delay", "backoff", "default_retry_delay", "retry_interval"), PAUSE),
    **dict.fromkeys(("concurrency", "max_instances", "max_running"), AT_ONCE),
    **dict.fromkeys(("timezone", "tz"), ZONE),
    "enabled": DISABLED,
    "paused": MANUAL,
    **dict.fromkeys(("args", "kwargs", "params", "parameters"), BODY),
    **dict.fromkeys(
        ("start_at", "end_at", "start_date", "end_date", "ttl", "misfire", "jitter", "calendar"), IN_TIMER
    ),
    **dict.fromkeys(("id", "key", "task_id"), ID),
    "async": ASYNC,
    "tags": TAGS,
}
"""Options of other schedulers by what they are here; `text` and `value` are as given, else the example."""
UNITS = {"minutes": "m", "hours": "h"}
STEP_REMEDIES: Mapping[str, str] = {
    "url": "it is the function's own; work for a queue is declared with queue=… and done by a Worker",
    "serviceName": "it is the service that has the function",
    "method": "functions are called by POST",
    "body": "give body=… beside step",
}

STEP_MEMBERS = frozenset(field.alias or name for name, field in RequestStep.model_fields.items())
LONGEST_SHOWN = 60


def check_options(name: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises DeclarationError for options of function `name` that do not exist or have no effect."""
    names = list(known)
    for given in options:
        if given not in names:
            raise DeclarationError(f"{name}: {_refuse(given, options[given], names)}")
    queue, step = options.get("queue"), options.get("step") or {}
    for member in step:
        if member in STEP_REMEDIES:
            raise DeclarationError(f"{name}: step takes no {member}: {STEP_REMEDIES[member]}")
        if queue is None and member in QUEUE_MEMBERS:
            text = "it is for work that is claimed; declare it with queue=…, or by a Worker"
            raise DeclarationError(f"{name}: {member} of step has no effect: {text}")
        if queue is not None and member in ROUTING_MEMBERS:
            text = "it chooses the instance to call; work from a queue is claimed"
            raise DeclarationError(f"{name}: {member} of step has no effect: {text}")
        if queue is not None and member in SENT_MEMBERS:
            text = "it is for calls; work from a queue is claimed, and timeout_seconds limits it"
            raise DeclarationError(f"{name}: {member} of step has no effect: {text}")


def refuse_misplaced(name: str, given: Sequence[object]) -> None:
    """Raises DeclarationError where `name`, a decorator, got arguments by place."""
    if given:
        what = getattr(given[0], "__qualname__", repr(given[0]))
        raise DeclarationError(
            f"write @{name}() with parentheses, and its options by name: it was given {what} by place"
        )


def spell_as_member(option: str) -> str:
    """A member of a definition by its name in Python: `success_codes` is `successCodes`."""
    first, *rest = option.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _refuse(given: str, value: Any, names: list[str]) -> str:
    remedy = REMEDIES.get(given) or STEP_REMEDIES.get(spell_as_member(given))
    if remedy is not None:
        return f"@job takes no {given}: {remedy}"
    return f"unknown option {given!r}: {_remedy(given, value, names)}"


def _remedy(given: str, value: Any, names: list[str]) -> str:
    if given in OTHER_WORDS:
        form, example = OTHER_WORDS[given]
        number = value if isinstance(value, int | float) else None
        name = value if isinstance(value, str) else example
        return form.format(text=_as_text(given, value) or example, value=number or example, name=name)
    if (member := spell_as_member(given)) in STEP_MEMBERS:
        shown = repr(value) if len(repr(value)) <= LONGEST_SHOWN else "…"
        return f"it is a member of the step: step={{{member!r}: {shown}}}"
    spelt = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in given)
    near = difflib.get_close_matches(spelt, names, n=1)
    return f"did you mean {near[0]}?" if near else "remove it or check its spelling"


def _as_text(given: str, value: Any) -> str | None:
    """The value as it is written in a timer; numbers are seconds, unless the option says otherwise."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if isinstance(value, int | float):
        return f"{value}{UNITS.get(given, 's')}"
    return value if isinstance(value, str) else None
