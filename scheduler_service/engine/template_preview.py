"""Renders a template on a root without a job, for `POST /templates/preview` (SPEC sections 4 and 10)."""

from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from scheduler_service.domain.errors import DefinitionError, ExpressionError, Problem
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.token_masks import MARK as SHOWN
from scheduler_service.domain.wire import Answer
from scheduler_service.engine.answer_rules import RULE_MEMBERS, code_in, rule_of, text_in
from scheduler_service.engine.program import Surroundings
from scheduler_service.engine.warnings import missing_secret
from scheduler_service.language.compiled import Template
from scheduler_service.language.conditions import find_mismatches, find_slips, holds
from scheduler_service.language.expression import SYSTEM_VARIABLES, Allowance, Names
from scheduler_service.language.json_values import as_json
from scheduler_service.language.jsonpath import Stopped
from scheduler_service.language.rendering import (
    Rendered,
    Scope,
    Unrenderable,
    render_json,
    render_text,
    render_url,
)
from scheduler_service.language.template import compile_json, compile_text, compile_url
from scheduler_service.language.urls import NotAUrl, check_authority, origin, resolve_whole

POINTER = "/template"
SAMPLE_ID = "preview"


class PreviewedTemplate(msgspec.Struct, frozen=True):
    """A rendered template, with warnings about what only a job can check."""

    value: object
    warnings: tuple[Problem, ...] = ()


class TemplatePreview:
    """Renders templates on one root as a step of a job would.

    System variables have sample values, since there is no job: a warning names those that were used. `now`
    is in wall ms. All methods raise DefinitionError with pointers below `/template`; errors that a job meets
    only at run time have the code `template`.
    """

    def __init__(self, *, root: Mapping[str, object], surroundings: Surroundings, now: int) -> None:
        self._surroundings = surroundings
        self._names = Names(environment=frozenset(surroundings.environment), allowance=Allowance())
        self._scope = Scope(
            system=_sample_values(surroundings, now),
            environment=surroundings.environment,
            root=root,
            aliases={"jobId": SAMPLE_ID, "executeNumber": 1},
        )

    def body(self, value: object) -> PreviewedTemplate:
        """As a body: any JSON value."""
        try:
            template = compile_json(value, names=self._names)
        except DefinitionError as error:
            raise DefinitionError(_below(problem) for problem in error.problems) from None
        except ExpressionError as error:
            raise DefinitionError([error.as_problem(POINTER)]) from None
        rendered = _rendered(render_json(template, self._scope_of(template)))
        assert isinstance(rendered, Rendered)
        return PreviewedTemplate(rendered.value, self._warn(template))

    def header(self, text: str) -> PreviewedTemplate:
        """As the value of a header."""
        try:
            template = compile_text(text, names=self._names)
        except ExpressionError as error:
            raise DefinitionError([error.as_problem(POINTER)]) from None
        return PreviewedTemplate(
            _rendered(render_text(template, self._scope_of(template))), self._warn(template)
        )

    def url(self, text: str) -> PreviewedTemplate:
        """As a `url`. A warning for a whole one, which is allowed or not by the origin that answered."""
        try:
            template = compile_url(text, names=self._names)
            check_authority(template)
        except ExpressionError as error:
            raise DefinitionError([error.as_problem(POINTER)]) from None
        url = _rendered(render_url(template, self._scope_of(template)))
        if template.secrets or SHOWN in self._scope.environment.values():
            assert isinstance(url, str)
            url = url.replace(quote(SHOWN, safe=""), SHOWN)
        if not template.whole:
            return PreviewedTemplate(url, self._warn(template))
        assert isinstance(url, str)
        return _whole(url)

    def _warn(self, template: Template) -> tuple[Problem, ...]:
        has_secret, tenant = self._surroundings.has_secret, self._surroundings.tenant
        missing = [one for one in sorted(template.secrets) if has_secret and not has_secret(tenant, one)]
        return (*_warn_samples(template.variables), *(missing_secret(POINTER, one) for one in missing))

    def _scope_of(self, template: Template) -> Scope:
        """The scope with `***` for each secret that the template names."""
        if not template.secrets:
            return self._scope
        return msgspec.structs.replace(self._scope, secrets=dict.fromkeys(template.secrets, SHOWN))


def preview_rule(member: str, text: str, answer: object) -> PreviewedTemplate:
    """What `successWhen`, `errorFrom` or `messageFrom` makes of an answer; null: it finds no code or message.

    Raises DefinitionError as the methods of `TemplatePreview`.
    """
    try:
        rule = rule_of(tuple(text if one == member else "" for one in RULE_MEMBERS))
    except ExpressionError as error:
        raise DefinitionError([error.as_problem(POINTER)]) from None
    body = Answer(200, body=as_json(answer))
    if member == "errorFrom":
        return PreviewedTemplate(code_in(rule, body, "") or None)
    if rule.condition is None:
        return PreviewedTemplate(text_in(rule, body) or None)
    verdict = holds(rule.condition, answer)
    if isinstance(verdict, Stopped):
        raise DefinitionError([Problem(POINTER, "template", f"{member} {verdict.message}")])
    slips = (*find_slips(text), *find_mismatches(text, answer))
    return PreviewedTemplate(verdict, tuple(Problem(POINTER, one.code, one.message) for one in slips))


def _sample_values(surroundings: Surroundings, now: int) -> dict[str, object]:
    internal, external = (
        f"{base.rstrip('/')}/jobs/{SAMPLE_ID}/feedback/1?token={SAMPLE_ID}"
        for base in (surroundings.internal_url, surroundings.external_url)
    )
    known: dict[str, object] = {
        "schedulingFeedbackUrl": external,
        "schedulingFeedbackUrlInternal": internal,
        "schedulingFeedbackUrlExternal": external,
        "schedulingJobId": SAMPLE_ID,
        "schedulingExecuteNumber": 1,
        "schedulingRequestCounts": 1,
        "schedulingFireTime": rfc3339(now),
        "schedulingShardIndex": 0,
        "schedulingShardTotal": 1,
    }
    assert known.keys() == SYSTEM_VARIABLES
    return known


def _warn_samples(used: frozenset[str]) -> tuple[Problem, ...]:
    if not used:
        return ()
    message = f"there is no job: {', '.join(sorted(used))} have sample values"
    return (Problem(POINTER, "stand_in", message),)


def _whole(url: str) -> PreviewedTemplate:
    """A whole URL from the root: its form is checked here, its origin by the job."""
    base = url if origin(url) else "http://preview.invalid/"
    resolved = resolve_whole(url, base=base, follow=frozenset())
    if isinstance(resolved, NotAUrl):
        raise DefinitionError([Problem(POINTER, "template", resolved.message)])
    message = (
        "a job takes this url only if its origin is that of the step that answered or one of egress.follow"
    )
    return PreviewedTemplate(url, (Problem(POINTER, "origin_not_checked", message),))


def _rendered(found: Rendered | str | Unrenderable) -> Rendered | str:
    if isinstance(found, Unrenderable):
        message = f"${{{found.expression}}}: {found.message}"
        raise DefinitionError([Problem(POINTER, "template", message)])
    return found


def _below(problem: Problem) -> Problem:
    return Problem(POINTER + problem.pointer, problem.code, problem.message)
