"""Judges answers by their body: `successWhen`, `errorFrom` and `messageFrom` (SPEC section 4)."""

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

from client_sdk.models.step import RequestStep
from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.texts import cut_error
from scheduler_service.domain.wire import Answer
from scheduler_service.engine.program import AnswerRule
from scheduler_service.language.conditions import compile_condition, holds
from scheduler_service.language.expression import Allowance
from scheduler_service.language.json_values import NO_JSON, as_text, read_json
from scheduler_service.language.jsonpath import Missing, Path, Stopped, compile_path, evaluate

RULE_FIELDS = ("success_when", "error_from", "message_from")
RULE_MEMBERS = tuple(RequestStep.model_fields[field].alias or field for field in RULE_FIELDS)
"""The fields of a step that judge its answer, in Python and on the wire."""
UNSUCCESSFUL = "unsuccessful"
"""The error code of an answer whose status is a success, and whose body is none."""
NO_JSON_TEXT = "the answer is no JSON, as successWhen needs it"
TOO_LARGE_TEXT = "the response is larger than limits.response_bytes, and successWhen needs it"
UNJUDGED = frozenset({NO_JSON_TEXT, TOO_LARGE_TEXT})
"""Why `successWhen` was not tried: what the answer says may read like a success."""
RULES_KEPT = 256

RuleTexts = tuple[str, ...]
"""`successWhen`, `errorFrom`, `messageFrom`, each empty where it is not given; empty: there is no rule."""


Attempt = Callable[[Callable[[], Path], str], Path | None]
"""Runs what compiles an expression; None: it is wrong, and the problem is noted at the pointer."""


def compile_rule(
    step: RequestStep, pointer: str, attempt: Attempt, allowance: Allowance | None
) -> AnswerRule | None:
    """How answers to `step` are judged by their body; None: they are not."""
    given = tuple(getattr(step, field) for field in RULE_FIELDS)
    if given == (None, None, None):
        return None
    made = []
    for member, text, compile_one in zip(RULE_MEMBERS, given, _COMPILERS, strict=True):
        work = None if text is None else _within(allowance, text, compile_one)
        made.append(None if work is None else attempt(work, f"{pointer}/{member}"))
    return AnswerRule(*made)


@lru_cache(RULES_KEPT)
def rule_of(texts: RuleTexts) -> AnswerRule:
    """The rule of these three texts, which were accepted before."""
    pairs = zip(texts, _COMPILERS, strict=True)
    return AnswerRule(*(compile_one(text) if text else None for text, compile_one in pairs))


def texts_of(rule: AnswerRule | None) -> RuleTexts:
    """What `rule_of` makes the rule of again."""
    paths = () if rule is None else (rule.condition, rule.error, rule.message)
    return tuple("" if path is None else path.text for path in paths)


def find_unmet(rule: AnswerRule, answer: Answer) -> str | None:
    """Why an answer whose status is a success is none by its body; None: it is one."""
    if rule.condition is None:
        return None
    if answer.truncated:
        return TOO_LARGE_TEXT
    value = read_json(answer.body)
    if value is NO_JSON:
        return NO_JSON_TEXT
    verdict = holds(rule.condition, value)
    if isinstance(verdict, Stopped):
        return f"successWhen {verdict.message}"
    return None if verdict else f"successWhen is not true of the answer: {rule.condition.text}"


def code_in(rule: AnswerRule | None, answer: Answer, default: str) -> str:
    """The error code of a failed answer: what `errorFrom` finds, a text or a number, else `default`."""
    found = _find(None if rule is None else rule.error, answer)
    if isinstance(found, bool) or not isinstance(found, str | int | float | Decimal):
        return default
    code = as_text(int(found) if isinstance(found, float) and found.is_integer() else found)
    return cut_error(code) if code.strip() else default


def text_in(rule: AnswerRule | None, answer: Answer) -> str:
    """What `messageFrom` finds in a failed answer, as text; empty: nothing."""
    found = _find(None if rule is None else rule.message, answer)
    return "" if found is None or isinstance(found, Missing) else as_text(found)


def _find(path: Path | None, answer: Answer) -> object:
    if path is None:
        return None
    value = read_json(answer.body)
    return None if value is NO_JSON else evaluate(path, value)


def _within(allowance: Allowance | None, text: str, compile_one: Callable[[str], Path]) -> Callable[[], Path]:
    def make() -> Path:
        if allowance is not None:
            allowance.spend(len(text), 0)
        return compile_one(text)

    return make


def _compile_place(text: str) -> Path:
    if text.lstrip().startswith("@"):
        raise ExpressionError("a JSONPath begins with $", advice=f"write ${text.lstrip()[1:80]}", column=0)
    path = compile_path(text)
    if not path.singular:
        advice = "write a path to one, as $.code or $.errors[0].msg"
        raise ExpressionError("the JSONPath may find several values", advice=advice)
    return path


_COMPILERS = (compile_condition, _compile_place, _compile_place)
