"""The scope of a request's templates: root, system variables, environment (SPEC section 4)."""

import hashlib
import hmac
from collections.abc import Iterator

from scheduler_service.domain.document import Head, Kept, Open
from scheduler_service.domain.moments import rfc3339
from scheduler_service.engine.feedback_url import feedback_url
from scheduler_service.engine.program import Program, Target
from scheduler_service.language.compiled import Template
from scheduler_service.language.json_values import LARGE_BYTES, NOT_TEXT, parse_json, parse_response
from scheduler_service.language.rendering import Scope, holds_bytes

ANYTHING = "*"


def secret_mark(head: Head, key: str) -> str:
    """What stands in the request `key` (its Idempotency-Key) for the secrets in it: an HMAC with the key of
    the job, letters and digits. Whoever knows no state of the job cannot make one.
    """
    return "secret" + hmac.new(head.key, f"secrets of {key}".encode(), hashlib.sha256).hexdigest()


def scope_for(
    program: Program,
    head: Head,
    run: Open,
    responses: tuple[Kept, ...],
    target: Target,
    extra: dict[str, object] | None = None,
) -> Scope:
    """The scope of one request, with only what its templates name."""
    system: dict[str, object] = {}
    for name in target.variables:
        if extra is not None and name in extra:
            system[name] = extra[name]
        else:
            system[name] = _system(name, program, head, run, target)
    root = root_for(program, run, responses, target.members)
    size = len(run.params)
    for kept in responses:
        size += len(kept.body or b"")
    return Scope(
        system=system,
        environment=program.surroundings.environment,
        root=root,
        aliases={"jobId": program.job_id, "executeNumber": run.execute_number},
        has_bytes=bool(responses) and holds_bytes(root, 2),
        may_be_large=extra is not None or size > LARGE_BYTES,
    )


def names_in(target: Target) -> frozenset[str]:
    """The system variables in the templates of `target`."""
    return frozenset().union(*(template.variables for template in templates_of(target)))


def members_in(target: Target) -> frozenset[str]:
    """The first members of the root that the templates of `target` may read; `*`: any."""
    return frozenset().union(*(template.members for template in templates_of(target)))


def secrets_in(target: Target) -> frozenset[str]:
    """The names of the secrets in the templates of `target`."""
    return frozenset().union(*(template.secrets for template in templates_of(target)))


def templates_of(target: Target) -> Iterator[Template]:
    """Those of its url, headers, service and body."""
    yield target.url
    yield from (template for _, template in target.headers)
    yield from (template for template in (target.service_name, target.body) if template is not None)


def root_for(
    program: Program, run: Open, responses: tuple[Kept, ...], members: frozenset[str]
) -> dict[str, object]:
    """The root of JSONPath: members of the latest response, named responses, `responses`, `trigger`.

    Of the last three only what `members` names, so that unused responses are not parsed.
    """
    if not members:
        return {}
    is_whole = ANYTHING in members
    latest = _value(responses[-1]) if responses else parse_json(run.params)
    root: dict[str, object] = latest if isinstance(latest, dict) else {}
    if latest is NOT_TEXT:
        # Who reads a member of it is told so; a variable of the environment is found without it.
        known = program.surroundings.environment.keys() | {ANYTHING, "jobId", "executeNumber"}
        root = dict.fromkeys(members - known, NOT_TEXT)
    for step, kept in zip(program.steps, responses, strict=False):
        name = step.resp_env_name
        if name is not None and (is_whole or name in members):
            root[name] = _value(kept)
    if is_whole or "responses" in members:
        root["responses"] = [_value(kept) for kept in responses]
    if is_whole or "trigger" in members:
        root["trigger"] = parse_json(run.params)
    return root


def _value(kept: Kept) -> object:
    return None if kept.body is None else parse_response(kept.body)


def _system(name: str, program: Program, head: Head, run: Open, target: Target) -> object:
    around = program.surroundings
    match name:
        case "schedulingFeedbackUrl":
            base = around.internal_url if target.inside else around.external_url
            return feedback_url(base, program, head, run.request_counts)
        case "schedulingFeedbackUrlInternal":
            return feedback_url(around.internal_url, program, head, run.request_counts)
        case "schedulingFeedbackUrlExternal":
            return feedback_url(around.external_url, program, head, run.request_counts)
        case "schedulingJobId":
            return program.job_id
        case "schedulingExecuteNumber":
            return run.execute_number
        case "schedulingRequestCounts":
            return run.request_counts
        case "schedulingFireTime":
            return rfc3339(run.planned_at)
        case "schedulingShardIndex":
            return 0
        case _:  # schedulingShardTotal: the compiler refuses every other name
            return 1
