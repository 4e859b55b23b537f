"""Tried without creating anything: templates on a root, and the retries of a job (SPEC sections 4, 6, 10)."""

from itertools import accumulate

from starlette.responses import Response

from client_sdk.models import TemplateRequest
from scheduler_service.api.bodies import read_json, read_model
from scheduler_service.api.job_commands import run_once
from scheduler_service.api.jobs import find_job
from scheduler_service.api.problems import absent, invalid, invalid_all
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.domain.execution import FailureType
from scheduler_service.engine.program import Program
from scheduler_service.engine.retry import Failure, plan_retries
from scheduler_service.engine.trial import Trial, Tried


async def try_template(call: ApiRequest) -> Response:
    """`POST /templates/preview`: what a template becomes, or 422 as a job would give it."""
    raw = await call.body()
    asked = read_model(TemplateRequest, read_json(raw))
    trial = Trial(root=asked.root, surroundings=call.parts.surroundings, now=call.parts.clock.now().wall)
    try:
        tried = _try(trial, asked)
    except DefinitionError as error:
        raise invalid_all(error.problems) from None

    async def work() -> object:
        return {"value": tried.value}

    remembered = call.remembered("templates/preview", raw)
    return succeed(await run_once(call.parts, remembered, work), warnings=tried.warnings)


async def show_retry_plan(call: ApiRequest) -> Response:
    """`GET /jobs/{jobId}/retry-plan`: the waits of an execution that fails with `error` every time."""
    entry = await find_job(call.parts, call.job_id)
    job = await call.parts.read_job(entry.job_id)
    if job is None or job.document is None:
        raise absent("/jobId", f"there is no job {entry.job_id!r}")
    program = job.programs[job.document.head.revision]
    failure = _failure(program, call.query["error"])
    plan = plan_retries(program.policies, program.max_retries, failure)
    moments = accumulate(retry.wait for retry in plan.retries)
    items = [
        {
            "retry": number,
            "policy": retry.policy,
            "waitMs": retry.wait,
            "afterMs": moment,
            "jitter": program.policies[retry.policy].jitter,
        }
        for number, (retry, moment) in enumerate(zip(plan.retries, moments, strict=True), 1)
    ]
    return succeed({"error": failure.code, "items": items, "reason": plan.reason})


def _try(trial: Trial, asked: TemplateRequest) -> Tried:
    if asked.place == "body":
        return trial.body(asked.template)
    if not isinstance(asked.template, str):
        message = f"template must be a string where place is {asked.place!r}; only a body is any JSON value"
        raise invalid("/template", "type", message)
    return trial.url(asked.template) if asked.place == "url" else trial.header(asked.template)


def _failure(program: Program, code: str) -> Failure:
    """A synchronous attempt that runs out of time raises `500`, of the type timeout (SPEC section 5)."""
    if code != FailureType.TIMEOUT:
        return Failure(code, FailureType.HTTP)
    return Failure(code if program.asynchronous else "500", FailureType.TIMEOUT)
