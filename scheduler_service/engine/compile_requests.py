"""Compiles the requests of a definition: steps, check, cancelUrl and notifications, with all problems."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from client_sdk.models import JobDefinition
from client_sdk.models.parse import write_pointer
from client_sdk.models.step import RequestStep
from scheduler_service.domain.errors import DefinitionError, ExpressionError, Problem
from scheduler_service.domain.moments import SECOND
from scheduler_service.engine.answer_rules import RULE_FIELDS, RULE_MEMBERS, compile_rule
from scheduler_service.engine.outbound_requests import prerender
from scheduler_service.engine.parts.step_options import compile_dispatch, refuse_dispatch
from scheduler_service.engine.program import Notification, Step, Surroundings, Target, Targets
from scheduler_service.engine.template_scope import members_in, names_in, secrets_in
from scheduler_service.language.compiled import JsonTemplate, Slot, TextTemplate, UrlTemplate
from scheduler_service.language.expression import (
    NOTIFY_BODY,
    SYSTEM_VARIABLES,
    Allowance,
    Environment,
    Names,
    Overspent,
)
from scheduler_service.language.template import compile_json, compile_text, compile_url
from scheduler_service.language.url_places import OFFERED
from scheduler_service.language.urls import check_authority, names_service, read_topic

NO_URL = UrlTemplate(parts=(), is_constant=True)
WEBHOOK_ID = "webhook-id"
HEADERS_OF_EVENTS = frozenset({"content-type", WEBHOOK_ID})
OF_SIGNATURE = frozenset({WEBHOOK_ID, "webhook-timestamp", "webhook-signature"})
OPENING = re.compile(r"\$\{\s*(\w+)\s*\}")
Made = TypeVar("Made")


def compile_targets(
    definition: JobDefinition,
    surroundings: Surroundings,
    problems: list[Problem],
    *,
    system: bool,
    allowance: Allowance | None,
) -> Targets:
    """The requests of `definition`; what is wrong with them is added to `problems`.

    One that cannot be made says why (`Target.refused`). Raises DefinitionError if the definition has more
    expressions than the `allowance`.
    """
    compiler = _Compiler(definition, surroundings, problems, system=system, allowance=allowance)
    steps, check = compiler.steps(), compiler.check()
    check = check if definition.asynchronous else None
    return Targets(steps, check, compiler.cancel(), compiler.notifications())


class _Compiler:
    def __init__(
        self,
        definition: JobDefinition,
        surroundings: Surroundings,
        problems: list[Problem],
        *,
        system: bool,
        allowance: Allowance | None,
    ) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._problems = problems
        self._system = system
        self._allowance = allowance
        self._environment = frozenset(surroundings.environment)

    def steps(self) -> tuple[Step, ...]:
        made = []
        for index, step in enumerate(self._definition.request):
            pointer = f"/request/{index}"
            target = self._request(step, pointer, self._step_names(index))
            problems = [] if target.refused else self._problems
            made.append(
                Step(
                    index=index,
                    target=target,
                    resp_env_name=step.resp_env_name,
                    success=tuple(_read_success(code) for code in step.success_codes),
                    from_step=step.retry_from == "step",
                    dispatch=compile_dispatch(step, self._begin(step.url), pointer, problems),
                )
            )
        return tuple(made)

    def check(self) -> Target | None:
        check = self._definition.check_url
        if check is None:
            return None
        step = RequestStep(
            method="GET",
            url=check.url,
            service_name=check.service_name,
            headers=check.headers,
            sign=check.sign,
            timeout_seconds=check.timeout_seconds,
            success_codes=["2xx"],
            **{field: getattr(check, field) for field in RULE_FIELDS},
        )
        return self._direct(step, "/checkUrl", self._names())

    def cancel(self) -> Target | None:
        step = self._definition.cancel_url
        if step is None:
            return None
        self._refuse_rule(step, "/cancelUrl", "nobody waits for the answer of cancelUrl")
        return self._direct(step, "/cancelUrl", self._names())

    def notifications(self) -> tuple[Notification, ...]:
        names = self._names(notified=True)
        made = []
        for index, entry in enumerate(self._definition.notification):
            body = entry.body if entry.has_body else f"${{{NOTIFY_BODY}}}|json"
            step = RequestStep(
                method=entry.method,
                url=entry.url,
                headers=entry.headers,
                body=body,
                sign=entry.sign,
                success_codes=["2xx"],
                **{field: getattr(entry, field) for field in RULE_FIELDS},
            )
            pointer = f"/notification/{index}"
            self._check_topic(step, pointer)
            made.append(
                Notification(
                    target=self._direct(step, pointer, names),
                    name=entry.name,
                    keys=entry.keys,
                    on_change=entry.dedupe == "onChange",
                    outbox=entry.guarantee == "outbox",
                )
            )
        return tuple(made)

    def _names(self, before: int | None = None, *, notified: bool = False) -> Names:
        named = [step.resp_env_name for step in self._definition.request[:before] if step.resp_env_name]
        system = SYSTEM_VARIABLES | {NOTIFY_BODY} if notified else SYSTEM_VARIABLES
        topic = ("topic",) if notified and self._surroundings.topics else ()
        return Names(
            system=frozenset(system),
            environment=self._environment,
            resp_env_names=tuple(named),
            allowance=self._allowance,
            schemes=(*OFFERED, *topic),
            secret_paths=notified and self._system,
        )

    def _step_names(self, index: int) -> Names:
        names = self._names(index)
        queue = ("queue",) if self._surroundings.queues else ()
        return msgspec.structs.replace(names, schemes=(*names.schemes, *queue))

    def _direct(self, step: RequestStep, pointer: str, names: Names) -> Target:
        """A request outside the chain, which is never dispatched to instances."""
        self._problems.extend(refuse_dispatch(step, self._begin(step.url), pointer))
        return self._request(step, pointer, names)

    def _request(self, step: RequestStep, pointer: str, names: Names) -> Target:
        self._check_available(step, pointer)
        self._check_signed(step, pointer)
        url = self._try(lambda: self._url(step, names), f"{pointer}/url")
        headers = self._headers(step.headers, pointer, names)
        body, service = self._body(step, pointer, names), self._service(step, pointer, names)
        rule = compile_rule(step, pointer, self._try, self._allowance)
        refused = self._why_refused(pointer)  # what is found below keeps no request from being made
        self._check_queue(step, pointer, url or NO_URL)
        target = Target(
            method=step.method,
            url=url or NO_URL,
            headers=headers,
            body=body,
            service_name=service,
            inside=service is not None or self._begin(step.url).lower().startswith("service:"),
            timeout=self._timeout(step, pointer),
            has_own_limit=step.timeout_seconds is not None,
            redirects=step.follow_redirects,
            refused=refused,
            sign=step.sign or "",
            rule=rule,
        )
        return msgspec.structs.replace(
            target,
            fixed=prerender(target),
            variables=names_in(target),
            members=members_in(target),
            secrets=secrets_in(target),
        )

    def _why_refused(self, pointer: str) -> str:
        """The first problem of the request at `pointer`, of its members, or of the list in which it is."""
        for one in self._problems:
            if f"{one.pointer}/".startswith(f"{pointer}/"):
                member = one.pointer[len(pointer) + 1 :]
                return f"{member}: {one.message}" if member else one.message
            if pointer.startswith(f"{one.pointer}/"):
                return one.message
        return ""

    def _begin(self, url: str) -> str:
        """`url` with a leading environment variable filled in."""
        opening = OPENING.match(url)
        if opening is None:
            return url
        return self._surroundings.environment.get(opening[1], "") + url[opening.end() :]

    def _url(self, step: RequestStep, names: Names) -> UrlTemplate:
        if step.url.startswith("system:") and not self._system:
            raise ExpressionError("system:// is for system jobs only; use http(s):// or service://")
        template = compile_url(step.url, names=names)
        if step.service_name is None:  # with one, the authority is the first segment of the path
            check_authority(template)
        return template

    def _headers(
        self, given: dict[str, str], pointer: str, names: Names
    ) -> tuple[tuple[str, TextTemplate], ...]:
        made = []
        for name, text in given.items():
            place = pointer + write_pointer(["headers", name])
            template = self._try(_text_maker(text, names), place)
            if template is not None:
                made.append((name, template))
        return tuple(made)

    def _body(self, step: RequestStep, pointer: str, names: Names) -> JsonTemplate | None:
        if not step.has_body:
            return None
        return self._try(lambda: compile_json(step.body, names=names), f"{pointer}/body")

    def _service(self, step: RequestStep, pointer: str, names: Names) -> TextTemplate | None:
        if step.service_name is None:
            return None
        names = msgspec.structs.replace(names, secrets=False)
        made = self._try(_text_maker(step.service_name, names), f"{pointer}/serviceName")
        if made is not None and made.is_constant and not names_service(made.text):
            text = (
                f"serviceName {made.text[:80]!r} is not a service name; use letters, digits, '.', '_' and '-'"
            )
            self._problems.append(Problem(f"{pointer}/serviceName", "invalid", text))
        return made

    def _timeout(self, step: RequestStep, pointer: str) -> int:
        cap = self._surroundings.http_timeout
        if step.timeout_seconds is None:
            return cap
        given = round(step.timeout_seconds * SECOND)
        if given > cap:
            text = (
                f"timeoutSeconds {step.timeout_seconds:g} is more than the platform allows a call "
                f"({cap / SECOND:g} s); make longer work asynchronous, or raise "
                "defaults.http_timeout_seconds"
            )
            self._problems.append(Problem(f"{pointer}/timeoutSeconds", "range", text))
        return min(max(given, 1), cap)

    def _check_available(self, step: RequestStep, pointer: str) -> None:
        """Refuses by name what this version or place does not have, so that nothing is silently ignored."""
        if not self._surroundings.queues and self._begin(step.url).lower().startswith("queue:"):
            text = (
                "queue:// needs a service from which instances claim, and there is none here; "
                "use service:// or http(s)://"
            )
            self._problems.append(Problem(f"{pointer}/url", "not_available", text))
        is_notification = pointer.startswith("/notification/")
        if self._is_topic(step) and not (is_notification and self._surroundings.topics):
            text = (
                "topic:// needs Dapr, and this service runs without it; use service:// or http(s)://"
                if is_notification
                else "topic:// is for notifications alone; use service:// or http(s)://"
            )
            self._problems.append(Problem(f"{pointer}/url", "not_available", text))

    def _check_queue(self, step: RequestStep, pointer: str, url: UrlTemplate) -> None:
        """Refuses a queue that has its name from a variable whose value is hidden: lists show such names."""
        is_hidden = self._surroundings.is_hidden
        if is_hidden is None or not self._begin(step.url).lower().startswith("queue:"):
            return
        for part in url.parts:
            if isinstance(part, Slot) and isinstance(part.expression, Environment):
                name = part.expression.name
                if is_hidden(name):
                    text = (
                        f"${{{name}}} is hidden, as its name speaks of a secret, and the name of a queue is "
                        "shown; write the name itself, or use a variable of another name"
                    )
                    self._problems.append(Problem(f"{pointer}/url", "invalid", text))

    def _check_signed(self, step: RequestStep, pointer: str) -> None:
        """Refuses headers beside `sign` that the signature brings."""
        if step.sign is None:
            return
        own = OF_SIGNATURE - {WEBHOOK_ID} if pointer.startswith("/notification/") else OF_SIGNATURE
        for name in step.headers:
            if name.lower() in own:
                text = f"{name} is set by the scheduler, which signs this request; remove it, or sign"
                self._problems.append(Problem(pointer + write_pointer(["headers", name]), "header", text))

    def _check_topic(self, step: RequestStep, pointer: str) -> None:
        """Refuses what has no place in an event that is published."""
        if not self._is_topic(step):
            return
        if "${" not in step.url and read_topic(step.url) is None:
            text = f"{step.url[:80]!r} is not topic://PUBSUB/TOPIC, without a query, '.' and '..'; correct it"
            self._problems.append(Problem(f"{pointer}/url", "invalid", text))
        if step.method != "POST":
            text = f"an event is published, so method {step.method!r} has no meaning; remove it"
            self._problems.append(Problem(f"{pointer}/method", "invalid", text))
        if step.sign is not None:
            text = "an event is published by daprd, which does not sign; remove sign"
            self._problems.append(Problem(f"{pointer}/sign", "misplaced", text))
        self._refuse_rule(step, pointer, "daprd publishes an event and answers for no receiver")
        for name in step.headers:
            if name.lower() not in HEADERS_OF_EVENTS:
                text = f"an event has no header {name[:80]!r}; use Content-Type, webhook-id or the body"
                place = pointer + write_pointer(["headers", name])
                self._problems.append(Problem(place, "invalid", text))

    def _refuse_rule(self, step: RequestStep, pointer: str, why: str) -> None:
        """Refuses what judges an answer where there is none."""
        for field, member in zip(RULE_FIELDS, RULE_MEMBERS, strict=True):
            if getattr(step, field) is not None:
                text = f"{member} has no meaning here: {why}; remove it"
                self._problems.append(Problem(f"{pointer}/{member}", "misplaced", text))

    def _is_topic(self, step: RequestStep) -> bool:
        return self._begin(step.url).lower().startswith("topic:")

    def _try(self, make: Callable[[], Made], pointer: str) -> Made | None:
        try:
            return make()
        except Overspent as error:
            raise DefinitionError([*self._problems, error.as_problem(pointer)]) from None
        except ExpressionError as error:
            self._problems.append(error.as_problem(pointer))
        except DefinitionError as error:
            self._problems.extend(
                Problem(pointer + problem.pointer, problem.code, problem.message)
                for problem in error.problems
            )
        return None


def _text_maker(text: str, names: Names) -> Callable[[], TextTemplate]:
    return lambda: compile_text(text, names=names)


def _read_success(code: Any) -> tuple[int, int]:
    if isinstance(code, int):
        return code, code
    first = int(code[0]) * 100
    return first, first + 99
