"""A template tried on a root, without a job: what it would become, or why not (SPEC sections 4 and 10)."""

from collections.abc import Mapping

import msgspec

from scheduler_service.domain.errors import DefinitionError, ExpressionError, Problem
from scheduler_service.domain.moments import rfc3339
from scheduler_service.engine.program import Surroundings
from scheduler_service.language.authority import check_authority
from scheduler_service.language.expression import SYSTEM_VARIABLES, Allowance, Names
from scheduler_service.language.rendering import (
    Rendered,
    Scope,
    Unrenderable,
    render_json,
    render_text,
    render_url,
)
from scheduler_service.language.template import compile_json, compile_text, compile_url
from scheduler_service.language.urls import NotAUrl, origin, resolve_whole

POINTER = "/template"
STAND_IN_ID = "preview"


class Tried(msgspec.Struct, frozen=True):
    """What a template became, and what a job would judge that a trial cannot."""

    value: object
    warnings: tuple[Problem, ...] = ()


class Trial:
    """Tries templates on one root, as a step of a job would render them.

    System variables have stand-ins, since there is no job: a warning names those that were used. `now` is
    in wall ms. All methods raise DefinitionError, its pointers below `/template`; what a job finds only at
    run time has the code `template`.
    """

    def __init__(self, *, root: Mapping[str, object], surroundings: Surroundings, now: int) -> None:
        self._names = Names(environment=frozenset(surroundings.environment), allowance=Allowance())
        self._scope = Scope(
            system=_stand_ins(surroundings, now),
            environment=surroundings.environment,
            root=root,
            aliases={"jobId": STAND_IN_ID, "executeNumber": 1},
        )

    def body(self, value: object) -> Tried:
        """As a body: any JSON value."""
        try:
            template = compile_json(value, names=self._names)
        except DefinitionError as error:
            raise DefinitionError(_below(problem) for problem in error.problems) from None
        except ExpressionError as error:
            raise DefinitionError([error.as_problem(POINTER)]) from None
        rendered = _rendered(render_json(template, self._scope))
        assert isinstance(rendered, Rendered)
        return Tried(rendered.value, _warn_stand_ins(template.variables))

    def header(self, text: str) -> Tried:
        """As the value of a header."""
        try:
            template = compile_text(text, names=self._names)
        except ExpressionError as error:
            raise DefinitionError([error.as_problem(POINTER)]) from None
        return Tried(_rendered(render_text(template, self._scope)), _warn_stand_ins(template.variables))

    def url(self, text: str) -> Tried:
        """As a `url`. Whether a whole one may be asked depends on what answered: a warning says so."""
        try:
            template = compile_url(text, names=self._names)
            check_authority(template)
        except ExpressionError as error:
            raise DefinitionError([error.as_problem(POINTER)]) from None
        url = _rendered(render_url(template, self._scope))
        if not template.whole:
            return Tried(url, _warn_stand_ins(template.variables))
        assert isinstance(url, str)
        return _whole(url)


def _stand_ins(surroundings: Surroundings, now: int) -> dict[str, object]:
    internal, external = (
        f"{base.rstrip('/')}/jobs/{STAND_IN_ID}/feedback/1?token={STAND_IN_ID}"
        for base in (surroundings.internal_url, surroundings.external_url)
    )
    known: dict[str, object] = {
        "schedulingFeedbackUrl": external,
        "schedulingFeedbackUrlInternal": internal,
        "schedulingFeedbackUrlExternal": external,
        "schedulingJobId": STAND_IN_ID,
        "schedulingExecuteNumber": 1,
        "schedulingRequestCounts": 1,
        "schedulingFireTime": rfc3339(now),
        "schedulingShardIndex": 0,
        "schedulingShardTotal": 1,
    }
    assert known.keys() == SYSTEM_VARIABLES
    return known


def _warn_stand_ins(used: frozenset[str]) -> tuple[Problem, ...]:
    if not used:
        return ()
    message = f"there is no job: {', '.join(sorted(used))} stand for what an execution would have"
    return (Problem(POINTER, "stand_in", message),)


def _whole(url: str) -> Tried:
    """A whole URL from the root: its form is judged here, its origin by the job."""
    base = url if origin(url) else "http://preview.invalid/"
    resolved = resolve_whole(url, base=base, follow=frozenset())
    if isinstance(resolved, NotAUrl):
        raise DefinitionError([Problem(POINTER, "template", resolved.message)])
    message = (
        "a job takes this url only if its origin is that of the step that answered or one of egress.follow"
    )
    return Tried(url, (Problem(POINTER, "origin_not_checked", message),))


def _rendered(found: Rendered | str | Unrenderable) -> Rendered | str:
    if isinstance(found, Unrenderable):
        message = f"${{{found.expression}}}: {found.message}"
        raise DefinitionError([Problem(POINTER, "template", message)])
    return found


def _below(problem: Problem) -> Problem:
    return Problem(POINTER + problem.pointer, problem.code, problem.message)
