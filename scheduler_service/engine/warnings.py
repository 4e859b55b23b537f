"""Warnings about a valid definition that probably has a mistake (SPEC sections 4, 5, 6, 7 and 13)."""

import re
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import TypeGuard

from client_sdk.models import CancelUrl, CheckUrl, JobDefinition
from client_sdk.models.parse import write_pointer
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.moments import SECOND
from scheduler_service.engine.definition_checks import UNKNOWN_SECRET, posted_targets
from scheduler_service.engine.notification_events import FINAL
from scheduler_service.engine.outbound_requests import NAMED
from scheduler_service.engine.parts.step_options import read_options
from scheduler_service.engine.program import Program, Target, Targets, targets_of
from scheduler_service.engine.retry import NEVER_RETRIED
from scheduler_service.engine.template_scope import ANYTHING
from scheduler_service.language.compiled import ArrayNode, Interpolation, ObjectNode, Slot, Splice
from scheduler_service.language.conditions import find_slips
from scheduler_service.language.expression import SYSTEM_VARIABLES, Expression, Name, Query, SecretName
from scheduler_service.language.urls import KNOWN_NAMES

HasService = Callable[[str, str], bool]
CLASSES = frozenset({"4xx", "5xx"})
CODES = frozenset(
    {
        "timeout",
        "template",
        "check",
        "no_instance",
        "instance_lost",
        "egress",
        "response_too_large",
        "lost",
        "cancelled",
        "partial",
        "queue_timeout",
        "unsuccessful",
    }
)
"""The error codes of SPEC section 5 that are words; a business code may be any other."""

NEAR = 0.8
KEY_MAX = 64
KEYS_COMPARED = 20
"""How many unknown keys of an entry are compared: comparing one takes 20 µs."""
EVENTS = FINAL | {"inprogress", "succeed", "failed", "timeout"}

_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
IN_UTF_8 = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
"""Names of charsets in which a body of UTF-8 may be read; of ASCII, because most bodies are."""
_ANY_CLASS, _CLASS = re.compile(r"[0-9][xX]{2}"), re.compile(r"[06-9][xX]{2}")
UNTOLD = {
    ("finalFailed",): "no notification says that an execution has failed for good",
    ("finalSucceed",): "no notification says that an execution has succeeded",
    ("finalFailed", "finalSucceed"): "no notification says how an execution ended",
}
"""What is not sent where these events match no entry."""


def find_warnings(definition: JobDefinition, longest_call: int) -> Iterator[Problem]:
    """The warnings of a definition except those of its timer, each with its pointer.

    `longest_call`: after how many ms the service ends a call.
    """
    yield from _about_check(definition)
    yield from _about_conditions(definition)
    yield from _about_charsets(definition)
    for index, policy in enumerate(definition.retry):
        pointer = f"/retry/{index}/errorEquals"
        for code in sorted(policy.errors & NEVER_RETRIED):
            yield Problem(pointer, "never_retried", f"{code} is never retried; remove it")
        yield from _about_spelling(policy.errors, CLASSES | CODES, pointer)
    for index, entry in enumerate(definition.notification):
        yield from _about_events(entry.keys, f"/notification/{index}/stateEquals")
    yield from _about_final(definition)
    yield from _about_claims(definition)
    yield from _about_calls(definition, longest_call / SECOND)


def _about_check(definition: JobDefinition) -> Iterator[Problem]:
    if definition.check_url is not None and not definition.asynchronous:
        message = "checkUrl is ignored: the job is synchronous; add async true, or remove it"
        yield Problem("/checkUrl", "check_ignored", message)


def _about_conditions(definition: JobDefinition) -> Iterator[Problem]:
    for pointer, target in posted_targets(definition):
        if isinstance(target, CancelUrl) or target.success_when is None:
            continue
        for slip in find_slips(target.success_when):
            yield Problem(f"{pointer}/successWhen", slip.code, slip.message)


def _about_charsets(definition: JobDefinition) -> Iterator[Problem]:
    """A body is sent in UTF-8, whatever its type says."""
    for pointer, target in posted_targets(definition):
        for name, value in target.headers.items():
            found = _CHARSET.search(value) if name.lower() == "content-type" else None
            if found is not None and found[1].lower() not in IN_UTF_8:
                message = f"a body is sent in UTF-8, not in {found[1]}; write charset=utf-8, or leave it out"
                yield Problem(pointer + write_pointer(["headers", name]), "charset", message)


def _about_spelling(given: frozenset[str], known: frozenset[str], pointer: str) -> Iterator[Problem]:
    """Codes are case-sensitive: `5XX` is a business code that nothing raises."""
    meant = {name.lower(): name for name in known}
    for code in sorted(given - known):
        if _CLASS.fullmatch(code):
            message = f"{code!r} is no class of statuses; the classes are 1xx to 5xx"
            yield Problem(pointer, "spelling", message)
        if code.lower() in meant:
            message = f"{code!r} is not an error code; write {meant[code.lower()]!r}"
            yield Problem(pointer, "spelling", message)


def _about_events(given: frozenset[str], pointer: str) -> Iterator[Problem]:
    """A code of the business may be any text, so only near misses of the fixed keys are told."""
    meant = {name.lower(): name for name in EVENTS}
    for key in islice(sorted(given - EVENTS), KEYS_COMPARED):
        near = get_close_matches(key[:KEY_MAX].lower(), sorted(meant), n=1, cutoff=NEAR)
        if key == "*" or _ANY_CLASS.fullmatch(key):
            message = f"{key!r} is no event: stateEquals has no classes; write each status, or none for all"
            yield Problem(pointer, "spelling", message)
        elif near:
            message = f"{key[:KEY_MAX]!r} is not an event of the scheduler; did you mean {meant[near[0]]!r}?"
            yield Problem(pointer, "spelling", message)


def _about_final(definition: JobDefinition) -> Iterator[Problem]:
    entries = definition.notification
    covered = {key for key in FINAL for entry in entries if not entry.keys or key in entry.keys}
    missing = sorted(FINAL - covered)
    if entries and missing:
        them = "it" if len(missing) == 1 else "both"
        text = (
            f"no entry gets {' and '.join(missing)}: {UNTOLD[tuple(missing)]}; this may be meant, else add "
            f"{them} to stateEquals"
        )
        yield Problem("/notification", "no_final_notification", text)


def _about_claims(definition: JobDefinition) -> Iterator[Problem]:
    """The limit and the first lease both begin with the first claim: a retry needs what is left after it."""
    limit = definition.timeout_seconds
    if not limit:
        return
    for index, step in enumerate(definition.request):
        if not step.url.lower().startswith("queue:"):
            continue
        options = read_options(step)
        lease, delay = options.lease / SECOND, options.delay / SECOND
        if options.retries and limit <= lease + delay:
            text = (
                f"a worker that dies has no successor: timeoutSeconds {limit:g} ends before leaseSeconds "
                f"{lease:g} and unexpectedRetryDelaySeconds {delay:g} have passed; give timeoutSeconds more "
                f"than {lease + delay:g}, a shorter leaseSeconds, or maxUnexpectedRetries 0"
            )
            yield Problem(f"/request/{index}", "no_second_claim", text)


def _about_calls(definition: JobDefinition, longest: float) -> Iterator[Problem]:
    """The work of a synchronous call ends with it; `longest` in seconds."""
    steps, limit = definition.request, definition.timeout_seconds
    if definition.asynchronous or any(step.url.lower().startswith("queue:") for step in steps):
        return
    usable = longest * len(steps)
    if limit > usable:
        text = (
            f"timeoutSeconds is {limit:g}, but the setting defaults.http_timeout_seconds ends each call "
            f"after {longest:g} s; make longer work asynchronous (async true), raise the setting, or give "
            f"at most {usable:g}"
        )
        yield Problem("/timeoutSeconds", "call_limit", text)


ROOT_NAMES = frozenset({"responses", "trigger", "jobId", "executeNumber"})
NAMES_MAX = 100
"""How many unknown names of a definition are compared: comparing is slow."""
LENGTH_MAX = 64
_SUFFIX = re.compile(r"\s*\|\s*([A-Za-z]{3,6})\s*")
_FOREIGN = re.compile(r"\{\{[^{}]{1,80}\}\}|\{%[^{}%]{1,80}%\}")
_FOREIGN_URL = re.compile(_FOREIGN.pattern + r"|(?<=://)(?:\$\w+|\{\w+\})(?=[/:?#]|$)")
"""`{{name}}` and `{% if %}`, in a URL also `$NAME` or `{name}` as its host: as other tools write them."""
_NAME = re.compile(r"[A-Za-z_][\w.]*")
MOMENTS = frozenset(
    {"ds", "ds_nodash", "ts", "ts_nodash", "execution_date", "logical_date", "data_interval_start"}
)
"""What Airflow calls the moment of a firing, or its day."""
FOREIGN_MAX = 20
"""So many templates of other tools are told of."""
_NO_PARAMS = (
    "${{{}}}: what a timer starts has no parameters, so it fails with template here; write a constant, "
    'take all of them with "${{trigger}}|json", or let the period be external'
)
_DIGITS = re.compile(r"\d+")


def find_template_warnings(
    definition: JobDefinition, targets: Targets, environment: Iterable[str], *, has_firings: bool
) -> Iterator[Problem]:
    """`unknown_name`: a root name that is unknown and nearly a known one; `unknown_suffix`: nearly `|json`;
    `no_template`: what other tools take for a template; `no_params`: a parameter that an execution
    needs, where the timer starts some (`has_firings`), which have none. It is told of the first such place.

    Parameters of triggers and members of responses have names of their own, so other unknown names pass.
    """
    yield from islice(_about_foreign(definition), FOREIGN_MAX)
    speller = _Speller(definition, environment)
    warns_of_params = has_firings
    for place, (pointer, target) in enumerate(targets_of(targets)):
        known = speller.known(place if place < len(targets.steps) else None)
        for part_pointer, part in _parts(target, pointer):
            yield from speller.check(part_pointer, part, known)
            if warns_of_params and _needs_param(part, known, is_first=place == 0):
                warns_of_params = False
                yield Problem(part_pointer, "no_params", _NO_PARAMS.format(part.text[:80]))


def find_missing_secrets(program: Program) -> Iterator[Problem]:
    """`unknown_secret`: a template names a secret that the tenant does not have now; it may have it later."""
    has_secret, tenant = program.surroundings.has_secret, program.surroundings.tenant
    if has_secret is None or all(has_secret(tenant, name) for name in program.secrets):
        return
    for pointer, target in targets_of(program):
        for place, part in _parts(target, pointer):
            if isinstance(part, SecretName) and not has_secret(tenant, part.name):
                yield missing_secret(place, part.name)


def find_obstacles(program: Program, has_service: HasService | None = None) -> Iterator[Problem]:
    """Why an accepted definition cannot run as it stands: also secrets and services that are not there now.

    `has_service`: whether a tenant has a service of that name; without it that is not known.
    """
    yield from (one for one in program.problems if one.code != UNKNOWN_SECRET)
    yield from find_missing_secrets(program)
    around = program.surroundings
    for pointer, target in targets_of(program):
        judge = around.judge_secret if target.sign else None
        if judge is not None and (reason := judge(around.tenant, target.sign)) is not None:
            yield Problem(f"{pointer}/sign", UNKNOWN_SECRET, reason)
        name = _service_of(target)
        if name and has_service is not None and not has_service(around.tenant, name):
            text = f"there is no service {name!r}: start an instance of it, declare it, or correct the name"
            yield Problem(f"{pointer}/url", "unknown_service", text)


def _service_of(target: Target) -> str:
    """The service that its `serviceName` or URL names; empty: none, the owner, or one by a template."""
    if target.service_name is not None:
        name = target.service_name.text if target.service_name.is_constant else ""
        return "" if name in KNOWN_NAMES else name
    (first, *more) = target.url.parts or ("",)
    named = NAMED.match(first) if isinstance(first, str) else None
    return "" if named is None or (more and named[0] == first) else named[1]


def missing_secret(pointer: str, name: str) -> Problem:
    """The warning about a secret that does not exist."""
    message = f"there is no secret {name!r}: until it is stored, what names it fails as template"
    return Problem(pointer, "unknown_secret", message)


def _about_foreign(definition: JobDefinition) -> Iterator[Problem]:
    for pointer, target in posted_targets(definition):
        texts = [
            (f"{pointer}{write_pointer(['headers', name])}", text) for name, text in target.headers.items()
        ]
        body = () if isinstance(target, CheckUrl) else _texts(target.body, f"{pointer}/body")
        for place, text in ((f"{pointer}/url", target.url), *texts, *body):
            pattern = _FOREIGN_URL if text is target.url else _FOREIGN
            for found in pattern.finditer(text):
                yield Problem(place, "no_template", _explain_foreign(found[0]))


def _explain_foreign(found: str) -> str:
    name = found.strip("{}$% ")
    meant = "schedulingFireTime" if name.split("|")[0].strip() in MOMENTS else name
    way = f"a template is written ${{{meant}}}" if _NAME.fullmatch(meant) else "templates are written ${…}"
    return f"{found!r} is sent as it stands; {way}"


def _texts(value: object, pointer: str) -> Iterator[tuple[str, str]]:
    """The texts in a body, with their pointers."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, pointer + write_pointer([name]))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{pointer}/{index}")


Part = Expression | tuple[str, Expression, str]
"""An expression, or one with the suffix behind it and the text that should stand there."""


def _parts(target: Target, pointer: str) -> Iterator[tuple[str, Part]]:
    for slot in target.url.parts:
        if isinstance(slot, Slot):
            yield f"{pointer}/url", slot.expression
    for name, template in target.headers:
        for part in template.parts:
            if isinstance(part, Expression):
                yield pointer + write_pointer(["headers", name]), part
    if target.body is not None and not target.body.is_constant:
        yield from _body_parts(target.body.node, f"{pointer}/body")


def _body_parts(node: object, pointer: str) -> Iterator[tuple[str, Part]]:
    if isinstance(node, Splice):
        yield pointer, node.expression
    elif isinstance(node, ObjectNode):
        for key, item in node.entries:
            yield from _body_parts(item, pointer + write_pointer([key]))
    elif isinstance(node, ArrayNode):
        for index, item in enumerate(node.items):
            yield from _body_parts(item, f"{pointer}/{index}")
    elif isinstance(node, Interpolation):
        yield from ((pointer, part) for part in node.parts if isinstance(part, Expression))
        match node.parts:
            case (Expression() as only, str(rest)) if found := _SUFFIX.fullmatch(rest):
                yield pointer, (found[1], only, rest)


class _Speller:
    """Compares unknown names of one definition with the known ones; each name is told once per place."""

    def __init__(self, definition: JobDefinition, environment: Iterable[str]) -> None:
        schema = definition.params_schema if isinstance(definition.params_schema, dict) else {}
        declared = schema.get("properties")
        self._declared = frozenset(declared) if isinstance(declared, dict) else frozenset[str]()
        self._named = [step.resp_env_name for step in definition.request]
        self._general = SYSTEM_VARIABLES | ROOT_NAMES | frozenset(environment)
        self._room = NAMES_MAX
        self._told: set[tuple[str, str]] = set()

    def known(self, before: int | None) -> frozenset[str]:
        """What a template may name whose request follows the first `before` steps; None: all steps."""
        return self._general | {name for name in self._named[:before] if name}

    def check(self, place: str, part: Part, known: frozenset[str]) -> Iterator[Problem]:
        """The warnings of one part of the template at `place`."""
        if isinstance(part, tuple):
            suffix, expression, text = part
            if get_close_matches(suffix.lower(), ["json"], n=1, cutoff=0.7):
                meant = f"${{{expression.text}}}|json"
                message = f"{text!r} behind ${{{expression.text}}} is sent as text; did you mean {meant}?"
                yield Problem(place, "unknown_suffix", message)
            return
        for name in sorted(_root_names(part) - known - self._declared):
            near = self._near(place, name, known)
            if near is not None:
                message = f"${{{part.text[:80]}}}: no {name} is known here; did you mean {near}?"
                yield Problem(place, "unknown_name", message)

    def _near(self, place: str, name: str, known: frozenset[str]) -> str | None:
        if len(name) > LENGTH_MAX or (place, name) in self._told or self._room == 0:
            return None
        self._told.add((place, name))
        self._room -= 1
        near = get_close_matches(name, sorted(known), n=3, cutoff=NEAR)
        return next((one for one in near if not _is_sibling(name, one)), None)


def _needs_param(part: Part, known: frozenset[str], *, is_first: bool) -> TypeGuard[Expression]:
    """Whether it finds nothing, and so fails, without parameters: the root of the first step."""
    if isinstance(part, Name):
        return is_first and part.name not in known
    if not isinstance(part, Query) or not part.path.singular or not part.path.steps:
        return False
    first, *inner = part.path.steps
    return bool(inner) if first == "trigger" else is_first and first not in known


def _root_names(expression: Expression) -> frozenset[str]:
    if isinstance(expression, Name):
        return frozenset({expression.name})
    return expression.path.members - {ANYTHING} if isinstance(expression, Query) else frozenset()


def _is_sibling(name: str, known: str) -> bool:
    """Two names that are both usual: one and many, or numbered ones."""
    one, other = name.lower(), known.lower()
    return f"{one}s" == other or f"{other}s" == one or _DIGITS.sub("", name) == _DIGITS.sub("", known)
