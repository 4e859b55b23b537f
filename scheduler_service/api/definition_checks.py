"""A whole definition is tried without creating a job, and its form is described (SPEC section 10)."""

from typing import Any

from starlette.responses import Response

from client_sdk.models import JobDefinition, answers
from client_sdk.models.definition_schema import definition_schema
from scheduler_service.api import examples
from scheduler_service.api.definitions import CheckedDefinition, check_posted
from scheduler_service.api.name_warnings import find_refused_names, warn_of_names
from scheduler_service.api.previews import SOFT, softly, write_plan
from scheduler_service.api.request import ApiRequest, Body, Routes
from scheduler_service.api.responses import succeed
from scheduler_service.api.shapes import firing_preview
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.engine.program import Program
from scheduler_service.engine.retry import PLANNED_MAX
from scheduler_service.security.callers import Role
from scheduler_service.timing.preview import preview

ROUTES = Routes("definitions")

FIRINGS = 5
ANY_STATUS = "500"
"""Shown for a policy that is for all errors."""


@ROUTES.add(
    "POST /definitions/check",
    Role.VIEWER,
    body=Body(JobDefinition, examples.DEFINITIONS[0], required=True),
    query=(SOFT,),
    data=answers.CheckOrProblem,
)
async def check_definition(request: ApiRequest) -> Response:
    """Try a definition without creating anything: what is wrong with it, or what it would do."""
    return await softly(request, _check)


@ROUTES.add("GET /schemas/job", Role.VIEWER, data=dict)
async def show_definition_schema(request: ApiRequest) -> Response:
    """Read the JSON Schema (2020-12) of a definition, for forms and editors."""
    return succeed(definition_schema())


async def _check(request: ApiRequest) -> Response:
    raw = await request.body()
    checked = await check_posted(request.deps, raw, None, request.creator)
    text, program = checked.definition.text, checked.definition.program
    names = await warn_of_names(text, await find_refused_names(request.deps, text))
    now, count = request.deps.clock.now().wall, 0 if program.disabled else FIRINGS
    shown = preview(program.timer, anchor=now, count=count, language=request.language)
    data = {
        "jobId": checked.job_id,
        "kind": shown.kind,
        "timer": firing_preview(shown, shown.firings),
        "retryPlans": _plans(program),
        "existing": await _find_existing(request, checked),
    }
    return succeed(data, warnings=(*checked.warnings, *names))


def _plans(program: Program) -> list[dict[str, Any]]:
    """Of each policy one; together they have as many retries at most as one alone."""
    count = len(program.policies)
    return [_plan(program, index, most=PLANNED_MAX // count) for index in range(count)]


def _plan(program: Program, index: int, *, most: int) -> dict[str, Any]:
    errors = sorted(program.policies[index].errors)
    code = ANY_STATUS if errors[0] == "*" else errors[0].replace("xx", "00")
    return {"policy": index, "errors": errors, **write_plan(program, code, most=most)}


async def _find_existing(request: ApiRequest, checked: CheckedDefinition) -> dict[str, Any] | None:
    """The job that has this id, and whether this definition would change it."""
    job = await request.deps.read_job(write_job_key(request.caller.tenant, checked.job_id))
    if job is None or job.document is None:
        return None
    revision = job.document.head.revision
    is_same = job.programs[revision].fingerprint == checked.definition.program.fingerprint
    return {"revision": revision, "isSame": is_same}
