"""Conditions: what stands behind `?` in a filter of JSONPath (RFC 9535), tried on one value.

`@` is the value, and so is `$`, as filters within the condition need it.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec
from jsonpath_rfc9535.filter_expressions import (
    ComparisonExpression,
    Expression,
    FilterExpressionLiteral,
    FilterQuery,
    FunctionExtension,
    LogicalExpression,
    NullLiteral,
    PrefixExpression,
    RelativeFilterQuery,
    StringLiteral,
)
from jsonpath_rfc9535.selectors import FilterSelector

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.iregexp import is_pattern
from scheduler_service.language.jsonpath import (
    MEMBER_NAME,
    NODES_MAX,
    Missing,
    Path,
    Stopped,
    count_parts,
    follow,
    measure,
    read_query,
    steps_of,
)
from scheduler_service.language.jsonpath_filters import Budget, Exhausted
from scheduler_service.language.jsonpath_selection import plan

OPENING = "$[?"
TOO_MUCH = f"visits more than {NODES_MAX} values; write a narrower condition"
NO_FILTER = "it is no single condition; write one, as in @.code == 0"
_NUMBER_OR_WORD = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_ADVICE = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (r"[=!]==", "write == or !="),
        (r"=~", "write match(@.name, 'pattern')"),
        (r"<>", "write !="),
        (r"(?<!&)&(?!&)", "write && in place of &"),
        (r"(?<!\|)\|(?!\|)", "write || in place of |"),
        (r"[“”‘’]", "write straight quotes, as in 'ok'"),
        (r"\$\{", "no template stands here; write @.name"),
        (r"(?i)(?<![.\w])(?:and|or|not)(?!\w)", "write &&, || and ! in place of and, or and not"),
        (r"(?<![.\w])in(?!\w)", "compare with each value, as in @.code == 0 || @.code == 200"),
        (r"[=<>]\s*(?:True|TRUE|False|FALSE|None|Null|NULL)\b", "write true, false or null"),
        (r"@\w", "write a dot behind @, as in @.code"),
        (r"\.(?:length|size|count)\(\)", "write length(@.name)"),
        (r"^\s*\?", "leave out the ?"),
        (r"^[^@$]*$", "@ is the answer; write @.name, as in @.code == 0"),
        (r"[=<>]\s*[^\s\d@$\-=<>()]", "write a text in quotes, as in @.status == 'ok'"),
    )
)
"""What people write by habit, in a condition that cannot be read, and what is meant."""


class Slip(msgspec.Struct, frozen=True):
    """What is valid in a condition and probably means something else."""

    code: str
    message: str


def compile_condition(text: str) -> Path:
    """The condition as a path for `holds`; `wide` is 0 where it looks only at single values.

    Raises ExpressionError with the column of the error, and what to write in place of a usual slip.
    """
    bare = measure(text)
    try:
        query = read_query(f"{OPENING}{text}]")
        selectors = [one for segment in query.segments for one in segment.selectors]
        selection = plan(query, set())
    except ExpressionError as error:
        raise _explain(error, text, bare) from None
    if len(selectors) != 1 or not isinstance(selectors[0], FilterSelector):
        raise ExpressionError(NO_FILTER)
    parts, wide = count_parts(bare)
    every = frozenset({"*"})
    return Path(text, singular=False, members=every, selection=selection, parts=parts + 1, wide=wide)


def holds(condition: Path, value: object) -> bool | Stopped:
    """Whether the condition is true of `value`, any JSON. Never raises."""
    assert condition.selection is not None, "a condition is a filter"
    try:
        return bool(condition.selection([[value]], value, Budget(NODES_MAX)))
    except Exhausted:
        return Stopped(TOO_MUCH)


def find_slips(text: str) -> Iterator[Slip]:
    """`text_compared`: with a text that looks like a number. `exists_only`: a member that is compared with
    nothing, which is true of `false` too. `pattern_unread`: of `match` or `search`, so that nothing matches.
    Of a condition that cannot be read there is none.
    """
    try:
        expression = _expression_of(text)
    except ExpressionError:
        return
    for part in _tests(expression):
        if isinstance(part, ComparisonExpression):
            yield from _find_texts(part)
        elif isinstance(part, FunctionExtension):
            yield from _find_patterns(part)
        elif isinstance(part, FilterQuery) and part.query.singular_query():
            shown = _show(part)
            message = f"{shown} alone asks whether it is there, be it false or 0; compare it: {shown} == true"
            yield Slip("exists_only", message)


def find_mismatches(text: str, value: object) -> Iterator[Slip]:
    """Of the comparisons of the condition with a constant, why some cannot hold of this `value`.

    `not_found`: what is compared is not in it. `other_kind`: it is of another kind, as a number is no text.
    """
    for part in _tests(_expression_of(text)):
        if not isinstance(part, ComparisonExpression):
            continue
        for query, literal in _operands(part):
            if not isinstance(literal, NullLiteral):
                yield from _compare(query, literal.value, value)


def _explain(error: ExpressionError, text: str, bare: str) -> ExpressionError:
    message = error.message.replace("not a JSONPath", "not a condition of JSONPath")
    column = None if error.column is None else min(max(error.column - len(OPENING), 0), len(text))
    advice = next((advice for pattern, advice in _ADVICE if pattern.search(bare)), "")
    return ExpressionError(message, column=column, advice=advice)


def _expression_of(text: str) -> Expression:
    selector = read_query(f"{OPENING}{text}]").segments[0].selectors[0]
    assert isinstance(selector, FilterSelector), "it has been compiled"
    return selector.expression.expression


def _tests(expression: Expression) -> Iterator[Expression]:
    """The comparisons and tests of which the condition is made; of those that are negated the comparisons."""
    rest = [(expression, False)]
    while rest:
        part, is_negated = rest.pop()
        if isinstance(part, LogicalExpression):
            rest += [(part.right, is_negated), (part.left, is_negated)]
        elif isinstance(part, PrefixExpression):
            rest.append((part.right, True))
        elif not is_negated or isinstance(part, ComparisonExpression):
            yield part


def _operands(comparison: ComparisonExpression) -> Iterator[tuple[FilterQuery, FilterExpressionLiteral[Any]]]:
    """What is compared with a constant, and the constant."""
    for query, literal in (
        (comparison.left, comparison.right),
        (comparison.right, comparison.left),
    ):
        if isinstance(query, FilterQuery) and isinstance(literal, FilterExpressionLiteral):
            yield query, literal


def _find_texts(comparison: ComparisonExpression) -> Iterator[Slip]:
    for query, literal in _operands(comparison):
        if isinstance(literal, StringLiteral) and _NUMBER_OR_WORD.fullmatch(literal.value):
            shown = _show(query)
            message = (
                f"'{literal.value}' is a text, which no number, true or false equals; unless the answer has "
                f"it in quotes write {shown} {comparison.operator} {literal.value}"
            )
            yield Slip("text_compared", message)


def _find_patterns(function: FunctionExtension) -> Iterator[Slip]:
    patterns = function.args[1:] if function.name in ("match", "search") else ()
    for pattern in patterns:
        if isinstance(pattern, StringLiteral) and not is_pattern(pattern.value):
            shown = pattern.value[:80]
            message = f"{shown!r} is no regular expression of RFC 9485, or too large: no text fits it"
            yield Slip("pattern_unread", message)


def _compare(query: FilterQuery, literal: object, value: object) -> Iterator[Slip]:
    shown, found = _show(query), follow(steps_of(query.query), value)
    if isinstance(found, Missing):
        yield Slip("not_found", f"{shown} is not in this answer")
    elif _kind_of(found) != _kind_of(literal):
        message = f"{shown} is {_kind_of(found)} here and is compared with {_kind_of(literal)}: never equal"
        yield Slip("other_kind", message)


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float() | Decimal():
            return "a number"
        case str():
            return "a text"
        case list():
            return "an array"
        case _:
            return "an object"


def _show(query: FilterQuery) -> str:
    """The query as people write it."""
    begin = "@" if isinstance(query, RelativeFilterQuery) else "$"
    return begin + "".join(_show_step(step) for step in steps_of(query.query))


def _show_step(step: str | int) -> str:
    if isinstance(step, str) and MEMBER_NAME.fullmatch(step):
        return f".{step}"
    return f"[{step!r}]"
