"""Compiles segments and selectors of a JSONPath to functions (RFC 9535 sections 2.3 and 2.5)."""

from collections.abc import Callable, Iterator

from jsonpath_rfc9535 import JSONPathQuery
from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath_rfc9535.selectors import (
    FilterSelector,
    IndexSelector,
    JSONPathSelector,
    NameSelector,
    SliceSelector,
)

from scheduler_service.language.json_values import NOT_TEXT, Unreadable
from scheduler_service.language.jsonpath_filters import Budget, Test, first_members, plan_filter

Selection = Callable[[list[object], object, Budget], list[object]]
"""(nodes, root, budget) → the nodes found from them, in order. May raise Exhausted."""

Selector = Callable[[object, object, Budget, list[object]], None]
"""(node, root, budget, found): appends what it selects of a node. May raise Exhausted."""


def plan(query: JSONPathQuery, roots: set[str], depth: int = 0) -> Selection:
    """The query as a function of its starting nodes.

    The first members that it and the `$` queries within read are added to `roots` (`*`: any); `depth` is how
    deep the query is within filters. Raises ExpressionError if filters nest too deep.
    """
    if depth == 0:
        roots |= first_members(query)
    segments = [_segment(segment, roots, depth) for segment in query.segments]

    def select(nodes: list[object], root: object, budget: Budget) -> list[object]:
        for segment in segments:
            nodes = segment(nodes, root, budget)
        return nodes

    return select


def _segment(segment: JSONPathSegment, roots: set[str], depth: int) -> Selection:
    selectors = [_selector(selector, roots, depth) for selector in segment.selectors]
    spread = _descendants if isinstance(segment, JSONPathRecursiveDescentSegment) else _itself

    def select(nodes: list[object], root: object, budget: Budget) -> list[object]:
        found: list[object] = []
        for node in nodes:
            for place in spread(node, budget):
                for selector in selectors:
                    selector(place, root, budget, found)
        return found

    return select


def _itself(node: object, budget: Budget) -> Iterator[object]:
    if node is NOT_TEXT:
        raise Unreadable
    budget.spend(1)
    yield node


def _descendants(node: object, budget: Budget) -> Iterator[object]:
    """The node and all arrays and objects below it, parents first; not recursive, as input may be deep."""
    stack = [node]
    while stack:
        place = stack.pop()
        yield place
        children = _children(place)
        budget.spend(1 + len(children))
        stack.extend(child for child in reversed(children) if type(child) in (dict, list))


def _selector(selector: JSONPathSelector, roots: set[str], depth: int) -> Selector:
    match selector:
        case NameSelector():
            return _by_name(selector.name)
        case IndexSelector():
            return _by_index(selector.index)
        case SliceSelector():
            return _by_slice(selector.slice)
        case FilterSelector():
            return _by_filter(plan_filter(selector.expression.expression, plan, roots, depth + 1))
        case _:
            return _every


def _by_name(name: str) -> Selector:
    def select(node: object, root: object, budget: Budget, found: list[object]) -> None:
        budget.spend(1)
        if type(node) is dict and name in node:
            found.append(node[name])

    return select


def _by_index(index: int) -> Selector:
    def select(node: object, root: object, budget: Budget, found: list[object]) -> None:
        budget.spend(1)
        if type(node) is list and -len(node) <= index < len(node):
            found.append(node[index])

    return select


def _by_slice(part: slice) -> Selector:
    def select(node: object, root: object, budget: Budget, found: list[object]) -> None:
        if type(node) is list and part.step != 0:
            children = node[part]
            budget.spend(1 + len(children))
            found.extend(children)

    return select


def _by_filter(test: Test) -> Selector:
    def select(node: object, root: object, budget: Budget, found: list[object]) -> None:
        children = _children(node)
        budget.spend(1 + len(children))
        found.extend(child for child in children if test(child, root, budget))

    return select


def _every(node: object, root: object, budget: Budget, found: list[object]) -> None:
    children = _children(node)
    budget.spend(1 + len(children))
    found.extend(children)


def _children(node: object) -> list[object]:
    if type(node) is dict:
        return list(node.values())
    return node if type(node) is list else []
