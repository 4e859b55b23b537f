"""Compiles how a step is handed to instances: routing of `service://`, options of `queue://`
(SPEC section 13)."""

import re
from collections.abc import Iterable

from client_sdk.models import JobDefinition
from client_sdk.models.step import RequestStep
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.parts import QueueOptions
from scheduler_service.engine.program import Routing

MOST_PARTS = 1_000
QUEUE_LEAD = 3
QUEUE_URL = re.compile(r"queue://([A-Za-z0-9][A-Za-z0-9._-]{0,127})(?:[/?#].*)?", re.DOTALL)
ROUTING_FIELDS = ("route", "tags")
SENT_FIELDS = {
    "timeout_seconds": "a worker has as long as it renews its lease and the job's own timeoutSeconds allows",
    "success_codes": "a worker says itself how its work ended",
    "follow_redirects": "no HTTP answer comes that could redirect",
}
"""What is for steps that are sent, and why work in a queue has none of it."""
QUEUE_FIELDS = (
    "specific_instances",
    "parallelism",
    "priority",
    "lease_seconds",
    "renew_seconds",
    "max_unexpected_retries",
    "unexpected_retry_delay_seconds",
)
DEFAULTS = QueueOptions()
RENEWALS_OF_A_LEASE = 2


def compile_dispatch(
    step: RequestStep, begin: str, pointer: str, problems: list[Problem]
) -> Routing | QueueOptions | None:
    """How `step` is handed out; `begin` is how its url begins. What is wrong goes to `problems`."""
    if begin.lower().startswith("queue:"):
        problems.extend(_misplaced(step, ROUTING_FIELDS, pointer, "service://"))
        problems.extend(_unsent(step, pointer))
        return _queue(step, begin, pointer, problems)
    problems.extend(_misplaced(step, QUEUE_FIELDS, pointer, "queue://"))
    if step.service_name is not None or begin.lower().startswith("service:"):
        return Routing(step.route, tuple(sorted(set(step.tags or ()))))
    problems.extend(_misplaced(step, ROUTING_FIELDS, pointer, "service://"))
    return None


def refuse_dispatch(step: RequestStep, begin: str, pointer: str) -> list[Problem]:
    """What only steps of the chain may have, found in a check, a notification or cancelUrl."""
    found = _misplaced(step, (*ROUTING_FIELDS, *QUEUE_FIELDS), pointer, "steps of request")
    if begin.lower().startswith("queue:"):
        text = "only steps of request go to queues; use http(s):// or service://"
        found.append(Problem(f"{pointer}/url", "misplaced", text))
    return found


def read_queue(url: str) -> str | None:
    """The queue that `url` names, or None where it is no `queue://NAME`."""
    found = QUEUE_URL.fullmatch(url)
    return found[1] if found else None


def lead_of(definition: JobDefinition) -> float:
    """How early its work may be handed out, in seconds: 0, or 3 where a step goes to a queue."""
    if definition.lead_seconds is not None:
        return definition.lead_seconds or 0
    return QUEUE_LEAD if any(step.url.startswith("queue:") for step in definition.request) else 0


def _misplaced(step: RequestStep, fields: Iterable[str], pointer: str, where: str) -> list[Problem]:
    found = []
    for field in fields:
        if getattr(step, field) is not None:
            alias = RequestStep.model_fields[field].alias or field
            text = f"{alias} is for {where} alone; remove it"
            found.append(Problem(f"{pointer}/{alias}", "misplaced", text))
    return found


def _unsent(step: RequestStep, pointer: str) -> list[Problem]:
    """What says how a call is made, and something else than what holds where it is left out."""
    found = []
    for field, why in SENT_FIELDS.items():
        form = RequestStep.model_fields[field]
        if getattr(step, field) != form.default:
            text = f"{form.alias} is for steps that are sent: {why}; remove it"
            found.append(Problem(f"{pointer}/{form.alias}", "misplaced", text))
    return found


def _queue(step: RequestStep, begin: str, pointer: str, problems: list[Problem]) -> QueueOptions:
    if step.service_name is not None:
        text = "a step goes to a service or to a queue, not to both; remove serviceName"
        problems.append(Problem(f"{pointer}/serviceName", "misplaced", text))
    if "${" not in begin and read_queue(begin) is None:
        text = "a queue is queue://NAME, a name of letters, digits, '.', '_' and '-'"
        problems.append(Problem(f"{pointer}/url", "invalid", text))
    options = _options(step)
    problems.extend(_doubled(step, f"{pointer}/specificInstances"))
    problems.extend(_too_many(options, f"{pointer}/parallelism"))
    if options.renew >= options.lease:
        text = "renewSeconds must be less than leaseSeconds, or every lease ends before it is renewed"
        problems.append(Problem(f"{pointer}/renewSeconds", "range", text))
    return options


def _doubled(step: RequestStep, pointer: str) -> list[Problem]:
    """Who is named twice: whoever counts the names would expect more parts than instances can take."""
    found, seen = [], set[str]()
    for index, name in enumerate(step.specific_instances or ()):
        if name in seen:
            text = f"the instance {name!r} is named twice; remove one"
            found.append(Problem(f"{pointer}/{index}", "duplicate", text))
        seen.add(name)
    return found


def _too_many(options: QueueOptions, pointer: str) -> list[Problem]:
    """An instance gets one part of a step: with more parts than instances it could never succeed."""
    parts, instances = options.parallelism, len(options.specific)
    if parts > MOST_PARTS:
        text = f"parallelism {parts} is more than {MOST_PARTS} parts; split the step"
        return [Problem(pointer, "range", text)]
    if 0 < instances < parts:
        text = (
            f"each part goes to another instance, but there are {parts} parts for the {instances} of "
            "specificInstances; lower parallelism or name more"
        )
        return [Problem(pointer, "range", text)]
    return []


def _options(step: RequestStep) -> QueueOptions:
    lease = DEFAULTS.lease if step.lease_seconds is None else round(step.lease_seconds * SECOND)
    renew = min(DEFAULTS.renew, lease // RENEWALS_OF_A_LEASE)
    delay = step.unexpected_retry_delay_seconds
    return QueueOptions(
        parallelism=step.parallelism or DEFAULTS.parallelism,
        specific=tuple(sorted(set(step.specific_instances or ()))),
        priority=step.priority or DEFAULTS.priority,
        lease=lease,
        renew=renew if step.renew_seconds is None else round(step.renew_seconds * SECOND),
        retries=DEFAULTS.retries if step.max_unexpected_retries is None else step.max_unexpected_retries,
        delay=DEFAULTS.delay if delay is None else round(delay * SECOND),
    )
