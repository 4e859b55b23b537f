"""Compiles how a step is dispatched: routing of `service://`, options of `queue://` (SPEC section 13)."""

import re
from collections.abc import Iterable

from client_sdk.models import JobDefinition
from client_sdk.models.step import RENEWALS_OF_A_LEASE, RequestStep
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.step_parts import QueueOptions
from scheduler_service.engine.answer_rules import RULE_FIELDS
from scheduler_service.engine.program import Routing

PARTS_MAX = 1_000
QUEUE_LEAD_SECONDS = 3
QUEUE_URL = re.compile(r"queue://([A-Za-z0-9][A-Za-z0-9._-]{0,127})(?:[/?#].*)?", re.DOTALL)
ROUTING_FIELDS = ("route", "tags")
SENT_FIELDS = {
    "timeout_seconds": "a worker has as long as it renews its lease and the job's own timeoutSeconds allows",
    "success_codes": "a worker reports itself how its work ended",
    "follow_redirects": "there is no HTTP answer that could redirect",
    **dict.fromkeys(RULE_FIELDS, "a worker reports itself how its work ended, and why"),
    "sign": "a worker claims it from this service, which it knows; nothing is sent that could be forged",
}
"""Options of steps that are sent directly, and why a step in a queue has none of them."""
QUEUE_FIELDS = (
    "specific_instances",
    "parallelism",
    "priority",
    "lease_seconds",
    "renew_seconds",
    "max_unexpected_retries",
    "unexpected_retry_delay_seconds",
    "queue_timeout_seconds",
)
DEFAULTS = QueueOptions()


def compile_dispatch(
    step: RequestStep, begin: str, pointer: str, problems: list[Problem]
) -> Routing | QueueOptions | None:
    """How `step` is dispatched; `begin` is the beginning of its url. Problems are added to `problems`."""
    if begin.lower().startswith("queue:"):
        problems.extend(_find_misplaced(step, ROUTING_FIELDS, pointer, "service://"))
        problems.extend(_find_direct_options(step, pointer))
        return _queue(step, begin, pointer, problems)
    problems.extend(_find_misplaced(step, QUEUE_FIELDS, pointer, "queue://"))
    if step.service_name is not None or begin.lower().startswith("service:"):
        return Routing(step.route, tuple(sorted(set(step.tags or ()))))
    problems.extend(_find_misplaced(step, ROUTING_FIELDS, pointer, "service://"))
    return None


def read_options(step: RequestStep) -> QueueOptions:
    """The options of a `queue://` step, with the defaults."""
    lease = DEFAULTS.lease if step.lease_seconds is None else round(step.lease_seconds * SECOND)
    renew = min(DEFAULTS.renew, lease // RENEWALS_OF_A_LEASE)
    delay, patience = step.unexpected_retry_delay_seconds, step.queue_timeout_seconds
    return QueueOptions(
        parallelism=step.parallelism or DEFAULTS.parallelism,
        specific=tuple(sorted(set(step.specific_instances or ()))),
        priority=step.priority or DEFAULTS.priority,
        lease=lease,
        renew=renew if step.renew_seconds is None else round(step.renew_seconds * SECOND),
        retries=DEFAULTS.retries if step.max_unexpected_retries is None else step.max_unexpected_retries,
        delay=DEFAULTS.delay if delay is None else round(delay * SECOND),
        queue_timeout=DEFAULTS.queue_timeout if patience is None else round(patience * SECOND),
    )


def refuse_dispatch(step: RequestStep, begin: str, pointer: str) -> list[Problem]:
    """Options for steps of the chain that a check, a notification or cancelUrl has."""
    found = _find_misplaced(step, (*ROUTING_FIELDS, *QUEUE_FIELDS), pointer, "steps of request")
    if begin.lower().startswith("queue:"):
        text = "only steps of request can go to a queue; use http(s):// or service://"
        found.append(Problem(f"{pointer}/url", "misplaced", text))
    return found


def read_queue(url: str) -> str | None:
    """The queue that `url` names; None: it is not `queue://NAME`."""
    found = QUEUE_URL.fullmatch(url)
    return found[1] if found else None


def lead_of(definition: JobDefinition) -> float:
    """How early its work may be dispatched, in seconds; default 0, or 3 if a step goes to a queue."""
    if definition.lead_seconds is not None:
        return definition.lead_seconds or 0
    return QUEUE_LEAD_SECONDS if any(step.url.startswith("queue:") for step in definition.request) else 0


def _find_misplaced(step: RequestStep, fields: Iterable[str], pointer: str, where: str) -> list[Problem]:
    found = []
    for field in fields:
        if getattr(step, field) is not None:
            alias = RequestStep.model_fields[field].alias or field
            text = f"{alias} is only for {where}; remove it"
            found.append(Problem(f"{pointer}/{alias}", "misplaced", text))
    return found


def _find_direct_options(step: RequestStep, pointer: str) -> list[Problem]:
    """Options for a direct call that differ from their default."""
    found = []
    for field, why in SENT_FIELDS.items():
        form = RequestStep.model_fields[field]
        if getattr(step, field) != form.default:
            text = f"{form.alias} is not for queues: {why}; remove it"
            found.append(Problem(f"{pointer}/{form.alias}", "misplaced", text))
    return found


def _queue(step: RequestStep, begin: str, pointer: str, problems: list[Problem]) -> QueueOptions:
    if step.service_name is not None:
        text = "a step goes to a service or to a queue, not both; remove serviceName"
        problems.append(Problem(f"{pointer}/serviceName", "misplaced", text))
    if "${" not in begin and read_queue(begin) is None:
        text = "a queue is queue://NAME, a name of letters, digits, '.', '_' and '-'"
        problems.append(Problem(f"{pointer}/url", "invalid", text))
    options = read_options(step)
    problems.extend(_find_doubled(step, f"{pointer}/specificInstances"))
    problems.extend(_find_too_many(options, f"{pointer}/parallelism"))
    if options.renew >= options.lease:
        text = "renewSeconds must be less than leaseSeconds, or every lease ends before it is renewed"
        problems.append(Problem(f"{pointer}/renewSeconds", "range", text))
    return options


def _find_doubled(step: RequestStep, pointer: str) -> list[Problem]:
    """Instances named twice, which make it look as if more parts could run than instances exist."""
    found, seen = [], set[str]()
    for index, name in enumerate(step.specific_instances or ()):
        if name in seen:
            text = f"the instance {name!r} is named twice; remove one"
            found.append(Problem(f"{pointer}/{index}", "duplicate", text))
        seen.add(name)
    return found


def _find_too_many(options: QueueOptions, pointer: str) -> list[Problem]:
    """An instance gets one part of a step: with more parts than instances the step can never succeed."""
    parts, instances = options.parallelism, len(options.specific)
    if parts > PARTS_MAX:
        text = f"parallelism {parts} is more than {PARTS_MAX} parts; split the step"
        return [Problem(pointer, "range", text)]
    if 0 < instances < parts:
        text = (
            f"each part goes to another instance, but there are {parts} parts for the {instances} of "
            "specificInstances; lower parallelism or name more"
        )
        return [Problem(pointer, "range", text)]
    return []
