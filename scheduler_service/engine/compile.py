"""Compiles a definition and checks, once, all that can be known before it runs (SPEC sections 2, 4)."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from client_sdk.models import JobDefinition
from client_sdk.models import Timer as TimerModel
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.domain.job_key import SYSTEM_IDS
from scheduler_service.domain.moments import SECOND
from scheduler_service.engine.compile_requests import compile_targets
from scheduler_service.engine.definition_checks import as_accepted_before, find_refused
from scheduler_service.engine.parts.step_options import lead_of
from scheduler_service.engine.program import Policy, Program, Step, Surroundings, Targets, targets_of
from scheduler_service.engine.template_scope import ANYTHING, templates_of
from scheduler_service.engine.warnings import find_template_warnings, find_warnings
from scheduler_service.language.expression import FEEDBACK_URLS, Allowance
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.language.jsonpath import searched_within
from scheduler_service.timing.calendar_days import Calendar, DayRule
from scheduler_service.timing.timer import (
    PLANNED,
    Timer,
    TimerKind,
    TimerText,
    bind_calendar,
    compile_timer,
    stand_still,
)

ROOT_NAMES = frozenset({"responses", "trigger"})
RESERVED_NAMES = ROOT_NAMES | {"secrets"}
PER_ATTEMPT = FEEDBACK_URLS | {"schedulingRequestCounts"}
CALENDAR, UNKNOWN_CALENDAR = "/timer/calendar", "unknown_calendar"
OWN = ("jobName", "jobDescription", "objectId", "labels")
"""The texts in which jobs of one shape may differ, by their JSON names."""

Parts = tuple[bytes, dict[str, object], list[list[object]]]
"""The shape, what OWN names, and the bodies of the steps."""
_EACH_BODY = {"__all__": {"body"}}
NOT_DUMPED: Any = {
    "active": True, "job_id": True, "timer": True, "service_options": True,
    "request": _EACH_BODY, "notification": _EACH_BODY,
}  # fmt: skip

SHORT_VISITS = 5_000
"""So many values JSONPath visits in about 5 ms."""
NO_LIMIT_SECONDS = 1_000_000_000
"""What `timeoutSeconds` 0 means: the longest limit that can be given, 31 years."""
encode_sorted = msgspec.json.Encoder(order="sorted").encode


class Compiled(msgspec.Struct, frozen=True):
    """A valid definition, compiled, with its warnings, those of its timer first.

    `shape` is equal for definitions that share one entry of `engine.compile_cache`. `refused`: for what a
    stored one would be refused if it were posted now.
    """

    program: Program
    warnings: tuple[Problem, ...]
    shape: bytes = b""
    refused: tuple[Problem, ...] = ()


def compile_definition(
    definition: JobDefinition, surroundings: Surroundings, *, system: bool = False
) -> Compiled:
    """The program of `definition`. Raises DefinitionError with all that is wrong, each with its pointer.

    `system`: a system job, whose step may be `system://NAME`.
    """
    problems: list[Problem] = []
    timer = _timer(definition, surroundings, problems)
    targets = compile_targets(definition, surroundings, problems, system=system, allowance=Allowance())
    problems.extend(_check_rest(definition, system=system))
    refused = list(find_refused(definition, surroundings))
    if definition.params_schema is not None:
        from scheduler_service.engine.params_schema import check_schema

        refused.extend(check_schema(definition.params_schema))
    wrong = {problem.pointer for problem in problems}
    problems.extend(problem for problem in refused if problem.pointer not in wrong)
    if problems or timer is None:
        raise DefinitionError(problems)
    return _complete(definition, surroundings, timer, targets, system=system)


def compile_stored(
    definition: JobDefinition,
    surroundings: Surroundings,
    *,
    system: bool = False,
    left_out: Sequence[Problem] = (),
) -> Compiled:
    """As `compile_definition`, for a definition that was accepted when it was posted, and is not judged anew.

    What cannot be done as settings are now fails when it is tried: a request says why (`Target.refused`), a
    timer stands still. `Program.problems` names it. `left_out`: what this version no longer reads of it
    (`posting.read_stored`). Its `paramsSchema` is not checked again: that takes as long as running it.
    """
    definition = as_accepted_before(definition)
    refused = list(left_out)
    timer = _timer(definition, surroundings, refused)
    troubles = [problem for problem in refused if f"{problem.pointer}/".startswith("/timer/")]
    if troubles and all(problem.code == UNKNOWN_CALENDAR for problem in troubles):
        timer = compile_posted_timer(definition.timer, default_zone=surroundings.default_zone)
    elif timer is None or troubles:
        timer = stand_still(_timer_text(definition.timer), troubles[0].message)
    targets = compile_targets(definition, surroundings, refused, system=system, allowance=None)
    refused.extend(_check_rest(definition, system=system))
    compiled = _complete(definition, surroundings, timer, targets, system=system)
    problems = {one.pointer: one for one in (*_find_refused_targets(targets), *troubles, *left_out)}
    if not refused and not problems:
        return compiled
    program = msgspec.structs.replace(compiled.program, problems=tuple(problems.values()))
    return msgspec.structs.replace(compiled, program=program, refused=tuple(refused))


def _find_refused_targets(targets: Targets) -> Iterator[Problem]:
    """A problem for each request that cannot be made, at its pointer."""
    first = targets.steps[0].target.url
    if first.whole:
        yield Problem("/request/0/url", "template", "no response comes before the first step; write its url")
    for pointer, target in targets_of(targets):
        if target.refused:
            yield Problem(pointer, "template", target.refused)


def _complete(
    definition: JobDefinition, surroundings: Surroundings, timer: Timer, targets: Targets, *, system: bool
) -> Compiled:
    parts = _split(definition)
    program = _assemble(definition, surroundings, timer, targets, join_all(definition, parts), system)
    warnings = (
        *below_timer(timer.warnings),
        *find_warnings(definition, surroundings.http_timeout),
        *find_template_warnings(
            definition, targets, surroundings.environment, has_firings=timer.kind is not TimerKind.EXTERNAL
        ),
        *_warn_of_feedback(program),
    )
    return Compiled(program, warnings, parts[0])


def compile_posted_timer(timer: TimerModel | None, *, default_zone: str) -> Timer:
    """A definition's `timer`, compiled. Raises DefinitionError, its pointers below `/timer`."""
    try:
        return compile_timer(_timer_text(timer), default_zone=default_zone)
    except DefinitionError as error:
        raise DefinitionError(below_timer(error.problems)) from None


def below_timer(problems: Iterable[Problem]) -> list[Problem]:
    """Problems of a timer, with their pointers in the definition."""
    return [Problem(f"/timer{one.pointer}", one.code, one.message) for one in problems]


def fingerprint(definition: JobDefinition) -> bytes:
    """Equal for equal definitions: defaults filled in, `active` and `jobId` left out (SPEC section 10)."""
    return join_all(definition, _split(definition))


def join_all(definition: JobDefinition, parts: Parts) -> bytes:
    """`fingerprint`, of its parts."""
    shape, own, bodies = parts
    return join(shape, digest_timer(definition.timer), encode_sorted((own, bodies)))


def digest_timer(timer: TimerModel | None) -> bytes:
    """Equal for equal timers, and for one that names none of the later members what it always was."""
    dumped = {} if timer is None else timer.model_dump(mode="json", by_alias=True)
    if dumped.get("periodFrom") == PLANNED:
        del dumped["periodFrom"]
    if dumped.get("calendar", "") is None:
        del dumped["calendar"]
    return hashlib.sha256(encode_sorted(dumped or None)).digest()


def join(shape: bytes, timer: bytes, rest: bytes) -> bytes:
    """The fingerprint; `rest`: what OWN names, and for each step a list of its body, or an empty one."""
    return hashlib.sha256(shape + timer + rest).digest()


def _timer(definition: JobDefinition, around: Surroundings, problems: list[Problem]) -> Timer | None:
    try:
        return bind_timer(compile_posted_timer(definition.timer, default_zone=around.default_zone), around)
    except DefinitionError as error:
        problems.extend(error.problems)
        return None


def _timer_text(timer: TimerModel | None) -> TimerText | None:
    if timer is None:
        return None
    known: dict[str, Any] = {}
    if timer.misfire is not None:
        known = {
            "misfire_policy": timer.misfire.policy,
            "misfire_grace": round(timer.misfire.grace_seconds * SECOND),
            "misfire_limit": timer.misfire.limit,
        }
    return TimerText(
        due_time=timer.due_time,
        period=timer.period,
        ttl=timer.ttl,
        timezone=timer.timezone,
        start_at=timer.start_at,
        end_at=timer.end_at,
        jitter=round(timer.jitter_seconds * SECOND),
        period_from=timer.period_from,
        calendar=_rule_of(timer),
        **known,
    )


def _rule_of(timer: TimerModel) -> DayRule | None:
    posted = timer.calendar
    return None if posted is None else DayRule(posted.name, posted.days, posted.otherwise)


def find_calendar(rule: DayRule, around: Surroundings) -> Calendar | None:
    """The calendar that a rule names, as it is now; None: the tenant has none of this name."""
    return None if around.find_calendar is None else around.find_calendar(around.tenant, rule.name)


def bind_timer(timer: Timer, around: Surroundings) -> Timer:
    """`timer` with the days of its calendar, if it names one. Raises DefinitionError where there is none."""
    if timer.rule is None:
        return timer
    bound = bind_calendar(timer, find_calendar(timer.rule, around))
    if bound.trouble:
        raise DefinitionError([Problem(CALENDAR, UNKNOWN_CALENDAR, bound.trouble)])
    return bound


def with_present_days(program: Program) -> Program:
    """`program` with the days of its calendar as they are now; the same one where they are those it has."""
    rule = program.timer.rule
    if rule is None:
        return program
    calendar = find_calendar(rule, program.surroundings)
    if calendar is rule.calendar:
        return program
    timer = bind_calendar(program.timer, calendar)
    problems = [one for one in program.problems if one.code != UNKNOWN_CALENDAR]
    if timer.trouble:
        problems.append(Problem(CALENDAR, UNKNOWN_CALENDAR, timer.trouble))
    return msgspec.structs.replace(program, timer=timer, problems=tuple(problems))


def _check_rest(definition: JobDefinition, *, system: bool) -> list[Problem]:
    names, job_id = _check_names(definition), _check_id(definition, system=system)
    return [*names, *job_id, *_check_policies(definition)]


def _check_id(definition: JobDefinition, *, system: bool) -> list[Problem]:
    if definition.job_id is None:
        return [Problem("/jobId", "required", "jobId is required")]
    if definition.job_id in SYSTEM_IDS and not system:
        text = f"{definition.job_id!r} is the id of a system job; choose another"
        return [Problem("/jobId", "reserved", text)]
    return []


def _check_policies(definition: JobDefinition) -> list[Problem]:
    text = 'errorEquals names no error; write a code such as "500" or "timeout", a list of codes, or "*"'
    return [
        Problem(f"/retry/{index}/errorEquals", "empty", text)
        for index, policy in enumerate(definition.retry)
        if not policy.errors or "" in policy.errors
    ]


def _check_names(definition: JobDefinition) -> list[Problem]:
    seen: set[str] = set()
    problems = []
    for index, step in enumerate(definition.request):
        name = step.resp_env_name
        if name is None:
            continue
        pointer = f"/request/{index}/respEnvName"
        if name in RESERVED_NAMES or name.startswith("scheduling"):
            text = f"respEnvName {name!r} is reserved; choose another"
            problems.append(Problem(pointer, "reserved", text))
        elif name in seen:
            text = f"two steps have the respEnvName {name!r}; choose another"
            problems.append(Problem(pointer, "duplicate", text))
        seen.add(name)
    return problems


def _mark_kept(targets: Targets) -> tuple[Step, ...]:
    """Marks the responses that a later template may read; the others are neither parsed nor kept."""
    steps, check, cancel = targets.steps, targets.check, targets.cancel
    names = frozenset(step.resp_env_name for step in steps if step.resp_env_name)
    chain = [step.target.members for step in steps] + ([check.members] if check else [])
    beside = [entry.target.members for entry in targets.notifications] + ([cancel.members] if cancel else [])
    marked = []
    for step in steps:
        later = chain[step.index + 1 :]
        needed = any(_reads(members, step, names, place == 0) for place, members in enumerate(later))
        keeps = needed or any(_reads(members, step, names, True) for members in beside)
        per_attempt = bool(step.target.variables & PER_ATTEMPT)
        marked.append(msgspec.structs.replace(step, keeps=keeps, needed=needed, per_attempt=per_attempt))
    return tuple(marked)


def _reads(members: frozenset[str], step: Step, names: frozenset[str], is_latest: bool) -> bool:
    if ANYTHING in members or "responses" in members or step.resp_env_name in members:
        return True
    return is_latest and bool(members - names - ROOT_NAMES)


def _policies(definition: JobDefinition) -> tuple[Policy, ...]:
    return tuple(
        Policy(
            errors=policy.errors,
            interval=round(policy.interval_seconds * SECOND),
            attempts=policy.max_attempts,
            rate=policy.backoff_rate,
            ceiling=None
            if policy.max_interval_seconds is None
            else round(policy.max_interval_seconds * SECOND),
            jitter=policy.jitter,
        )
        for policy in definition.retry
    )


def _assemble(
    definition: JobDefinition,
    surroundings: Surroundings,
    timer: Timer,
    targets: Targets,
    digest: bytes,
    system: bool,
) -> Program:
    assert definition.job_id is not None
    return Program(
        job_id=definition.job_id,
        surroundings=surroundings,
        fingerprint=digest,
        timer=timer,
        steps=_mark_kept(targets),
        check=targets.check,
        cancel=targets.cancel,
        notifications=targets.notifications,
        policies=_policies(definition),
        max_retries=definition.max_retries,
        asynchronous=definition.asynchronous,
        check_rate=round(definition.check_rate_seconds * SECOND),
        timeout=max(round((definition.timeout_seconds or NO_LIMIT_SECONDS) * SECOND), 1),
        qos=definition.qos,
        max_concurrency=definition.max_concurrency,
        overlap=definition.overlap_policy,
        queue_limit=definition.queue_limit,
        lead=round(lead_of(definition) * SECOND),
        starts_paused=definition.start_policy == "manual",
        active=definition.active,
        disabled=definition.disabled,
        pause_after=definition.pause_after_failures,
        keeps_result=definition.keep_result,
        job_name=definition.job_name,
        object_id=definition.object_id,
        creator=definition.creator or "",
        labels=definition.labels,
        parent_job=definition.parent_job,
        parent_execution=definition.parent_job_execution,
        history_detail=definition.history_detail,
        params_schema=definition.params_schema,
        system=system,
        short_bytes=_short_bytes(targets),
        secrets=tuple(sorted(frozenset().union(*(target.secrets for _, target in targets_of(targets))))),
        signs=frozenset(target.sign for _, target in targets_of(targets) if target.sign),
    )


def _short_bytes(targets: Targets) -> int:
    known = [target for _, target in targets_of(targets)]
    if any(target.body is not None and target.body.size > LARGE_BYTES for target in known):
        return -1
    paths = [path for target in known for template in templates_of(target) for path in template.searches]
    conditions = [target.rule.condition for target in known if target.rule is not None]
    paths += [path for path in conditions if path is not None and path.wide]
    return min(searched_within(paths, SHORT_VISITS), LARGE_BYTES) if paths else LARGE_BYTES


def _warn_of_feedback(program: Program) -> list[Problem]:
    """A warning about an asynchronous job whose outcome may never be reported."""
    targets = [*(step.target for step in program.steps), *(entry.target for entry in program.notifications)]
    if not program.asynchronous or program.check is not None:
        return []
    around = program.surroundings
    if any(target.variables & FEEDBACK_URLS for target in targets):
        if around.unreachable not in (around.internal_url, around.external_url):
            return []
        text = (
            f"feedback URLs begin with {around.unreachable}, which only this machine reaches: a target "
            "elsewhere cannot report; set server.external_url"
        )
        return [Problem("/async", "feedback_unreachable", text)]
    text = (
        "async has neither checkUrl nor a template with ${schedulingFeedbackUrl}: unless the last step "
        "answers 202 with Location, the attempt runs out of time; add one of them, or remove async"
    )
    return [Problem("/async", "no_outcome", text)]


def _split(definition: JobDefinition) -> Parts:
    filled = definition.model_dump(mode="json", by_alias=True, exclude=NOT_DUMPED)
    own = {name: filled.pop(name) for name in OWN}
    bodies = _take_bodies(definition, filled)
    filled["leadSeconds"] = lead_of(definition)
    return hashlib.sha256(encode_sorted(filled)).digest(), own, bodies


def _take_bodies(definition: JobDefinition, filled: dict[str, Any]) -> list[list[object]]:
    """The bodies, which the dump leaves out: it would copy each value of them, and show null like none."""
    for entry, dumped in zip(definition.notification, filled["notification"], strict=True):
        if entry.has_body:
            dumped["body"] = entry.body
    return [[step.body] if step.has_body else [] for step in definition.request]
