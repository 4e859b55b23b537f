"""Compiles the filters of a JSONPath to functions on plain values, with a budget (RFC 9535, 2.3.5, 2.4)."""

import operator
from collections.abc import Callable
from decimal import Decimal
from itertools import repeat

import msgspec
from jsonpath_rfc9535 import JSONPathQuery
from jsonpath_rfc9535.filter_expressions import (
    ComparisonExpression,
    Expression,
    FilterExpressionLiteral,
    FilterQuery,
    FunctionExtension,
    IntegerLiteral,
    LogicalExpression,
    PrefixExpression,
    RootFilterQuery,
)
from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment
from jsonpath_rfc9535.selectors import NameSelector

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.iregexp import CompiledRegexp, compile_pattern
from scheduler_service.language.json_values import NOT_TEXT, Unreadable


class Exhausted(Exception):
    """The budget is used up; `jsonpath.evaluate` turns it into a value."""


class Budget(msgspec.Struct):
    """The values that an evaluation may still visit; `patterns` are those compiled so far."""

    left: int
    patterns: dict[tuple[str, bool], CompiledRegexp] = {}

    def spend(self, nodes: int) -> None:
        """Uses up `nodes`. Raises Exhausted when none are left."""
        self.left -= nodes
        if self.left < 0:
            raise Exhausted


DEPTH_MAX = 24
"""How deep the parts of a filter may nest."""

Test = Callable[[object, object, Budget], bool]
"""(current, root, budget) → whether the filter holds. May raise Exhausted, Unreadable."""

Operand = Callable[[object, object, Budget], object]
"""(current, root, budget) → a value, or NOTHING."""

Nodes = Callable[[object, object, Budget], list[object]]
PlanQuery = Callable[[JSONPathQuery, set[str], int], Callable[[list[object], object, Budget], list[object]]]

NOTHING = object()
_NUMBERS = (int, float, Decimal)
_PATTERN_COST = 2_000  # compiling a pattern costs as much as so many visits
_STEPS_A_VISIT = 256  # engine steps (characters × pattern size) that cost as much as a visit


def plan_filter(expression: Expression, plan: PlanQuery, roots: set[str], depth: int) -> Test:
    """The expression as a test of one node; `plan` compiles the queries within it.

    Raises ExpressionError if it nests deeper than `DEPTH_MAX`.
    """
    if depth > DEPTH_MAX:
        raise ExpressionError(f"the filter nests deeper than {DEPTH_MAX}", column=expression.token.index)
    planner = _Planner(plan, roots, depth)
    match expression:
        case LogicalExpression():
            return planner.logical(expression)
        case PrefixExpression():
            negated = plan_filter(expression.right, plan, roots, depth + 1)
            return lambda current, root, budget: not negated(current, root, budget)
        case ComparisonExpression():
            return planner.comparison(expression)
        case FunctionExtension():
            return planner.pattern(expression)
        case FilterQuery():
            nodes = planner.nodes(expression)
            return lambda current, root, budget: bool(nodes(current, root, budget))
        case _:
            raise ExpressionError(
                "a filter is a comparison, a query or a function", column=expression.token.index
            )


class _Planner:
    """Compiles the parts of one expression, which share `plan`, `roots` and the depth."""

    def __init__(self, plan: PlanQuery, roots: set[str], depth: int) -> None:
        self._plan = plan
        self._roots = roots
        self._depth = depth

    def logical(self, expression: LogicalExpression) -> Test:
        """A chain of one operator is flat: its length is not nesting."""
        terms = [plan_filter(term, self._plan, self._roots, self._depth + 1) for term in _chain(expression)]
        if expression.operator == "&&":
            return lambda current, root, budget: all(term(current, root, budget) for term in terms)
        return lambda current, root, budget: any(term(current, root, budget) for term in terms)

    def comparison(self, expression: ComparisonExpression) -> Test:
        left, right = self.operand(expression.left), self.operand(expression.right)
        compare = _COMPARISONS[expression.operator]
        return lambda current, root, budget: compare(
            left(current, root, budget), right(current, root, budget), budget
        )

    def operand(self, expression: Expression) -> Operand:
        match expression:
            case IntegerLiteral():
                return _constant(_exact(expression))
            case FilterExpressionLiteral():
                return _constant(expression.value)
            case FunctionExtension():
                return self.function(expression)
            case FilterQuery():
                return _only(self.nodes(expression))
            case _:
                raise ExpressionError("this cannot be compared", column=expression.token.index)

    def function(self, expression: FunctionExtension) -> Operand:
        (argument,) = expression.args
        if expression.name == "length":
            value = self.operand(argument)
            return lambda current, root, budget: _length(value(current, root, budget))
        assert isinstance(argument, FilterQuery)
        nodes = self.nodes(argument)
        if expression.name == "count":
            return lambda current, root, budget: len(nodes(current, root, budget))
        return _only(nodes)

    def pattern(self, expression: FunctionExtension) -> Test:
        """`match` or `search`; false unless both arguments are texts."""
        text, pattern = (self.operand(argument) for argument in expression.args)
        whole = expression.name == "match"

        def test(current: object, root: object, budget: Budget) -> bool:
            subject, regexp = text(current, root, budget), pattern(current, root, budget)
            if type(subject) is not str or type(regexp) is not str:
                _check_read(subject, regexp)
                return False
            return _matches(regexp, subject, whole, budget)

        return test

    def nodes(self, expression: FilterQuery) -> Nodes:
        selection = self._plan(expression.query, self._roots, self._depth)
        if isinstance(expression, RootFilterQuery):
            self._roots |= first_members(expression.query)
            return lambda current, root, budget: selection([root], root, budget)
        return lambda current, root, budget: selection([current], root, budget)


def first_members(query: JSONPathQuery) -> frozenset[str]:
    """The members with which the query begins; `*`: any."""
    if not query.segments or isinstance(query.segments[0], JSONPathRecursiveDescentSegment):
        return frozenset({"*"})
    selectors = query.segments[0].selectors
    return frozenset(one.name if isinstance(one, NameSelector) else "*" for one in selectors)


def _chain(expression: LogicalExpression) -> list[Expression]:
    """The terms of a chain of one operator, in order."""
    terms: list[Expression] = []
    rest: list[Expression] = [expression]
    while rest:
        term = rest.pop()
        if isinstance(term, LogicalExpression) and term.operator == expression.operator:
            rest += [term.right, term.left]
        else:
            terms.append(term)
    return terms


def _constant(value: object) -> Operand:
    return lambda current, root, budget: value


def _only(nodes: Nodes) -> Operand:
    def operand(current: object, root: object, budget: Budget) -> object:
        found = nodes(current, root, budget)
        return found[0] if len(found) == 1 else NOTHING

    return operand


def _exact(literal: IntegerLiteral) -> object:
    """The integer as written: the library converts it to a float, which loses digits."""
    text = literal.token.value
    return int(text) if text.removeprefix("-").isdigit() else literal.value


def _length(value: object) -> object:
    _check_read(value)
    return len(value) if isinstance(value, (str, list, dict)) else NOTHING


def _check_read(*values: object) -> None:
    """What a filter would say of bytes that are no text is unknown."""
    if NOT_TEXT in values:
        raise Unreadable


def _matches(regexp: str, subject: str, whole: bool, budget: Budget) -> bool:
    pattern = budget.patterns.get((regexp, whole))
    if pattern is None:
        budget.spend(_PATTERN_COST)
        pattern = budget.patterns[regexp, whole] = compile_pattern(regexp, whole=whole)
    budget.spend(1 + len(subject) * pattern.size // _STEPS_A_VISIT)
    return pattern.matches(subject)


def _equal(left: object, right: object, budget: Budget) -> bool:
    """Equality of JSON values: true is not 1 (RFC 9535 section 2.3.5.2.2)."""
    budget.spend(1)
    if left is NOTHING or right is NOTHING:
        return left is right
    if type(left) is dict and type(right) is dict:
        return left.keys() == right.keys() and all(_equal(left[name], right[name], budget) for name in left)
    if type(left) is list and type(right) is list:
        return len(left) == len(right) and all(map(_equal, left, right, repeat(budget)))
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        return left == right
    _check_read(left, right)
    return type(left) is type(right) and left == right


def _less(left: object, right: object, budget: Budget) -> bool:
    if type(left) is str and type(right) is str:
        return left < right
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        return bool(operator.lt(left, right))  # type: ignore[arg-type]
    _check_read(left, right)
    return False


_COMPARISONS: dict[str, Callable[[object, object, Budget], bool]] = {
    "==": _equal,
    "!=": lambda left, right, budget: not _equal(left, right, budget),
    "<": _less,
    ">": lambda left, right, budget: _less(right, left, budget),
    "<=": lambda left, right, budget: _less(left, right, budget) or _equal(left, right, budget),
    ">=": lambda left, right, budget: _less(right, left, budget) or _equal(left, right, budget),
}
