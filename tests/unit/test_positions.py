"""Structs that are made by position have each value at its own place: types alone do not tell two apart."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile

from tests.unit.docs.pages import ROOT, parse_fresh

PRODUCT = ROOT / "scheduler_service"
MANY = 4
"""A call with so many values by position is looked at."""

Fields = Mapping[str, set[tuple[str, ...]]]


def test_values_of_structs_are_at_their_places() -> None:
    """None stands at the place of another one of the struct: `head.updated_at` is no `created_at`."""
    trees = {path: parse_fresh(path) for path in sorted(PRODUCT.rglob("*.py"))}
    structs = fields_by_struct(trees.values())
    found = [
        f"{path.relative_to(ROOT)}:{line}: {value} stands where {field} belongs"
        for path, tree in trees.items()
        for line, value, field in exchanged(tree, structs)
    ]
    assert found == []


def test_two_values_that_are_exchanged_are_found() -> None:
    """Of the same type, so that nothing else notices."""
    source = """
class Times(Struct):
    job: str
    created_at: int
    updated_at: int
    note: str = ""

Times(job, head.{}, head.{}, "")
"""
    found = []
    for first, second in (("created_at", "updated_at"), ("updated_at", "created_at")):
        tree = ast.parse(source.format(first, second))
        found.append([value for _, value, _ in exchanged(tree, fields_by_struct([tree]))])
    assert found == [[], ["updated_at", "created_at"]]


def fields_by_struct(trees: Iterable[ast.Module]) -> Fields:
    """The fields in their order, by the name of the class; several classes may have one name."""
    found: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                fields = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
                found[node.name].add(tuple(one.id for one in fields if isinstance(one, ast.Name)))
    return found


def exchanged(tree: ast.Module, structs: Fields) -> Iterator[tuple[int, str, str]]:
    """(line, name of a value, the field at its place) where that name's own field has a wrong one, too."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= MANY):
            continue
        values = list(takewhile(lambda one: not isinstance(one, ast.Starred), node.args))
        for fields in structs.get(node.func.id, ()):
            names = dict(zip(fields, map(name_of, values), strict=False))
            wrong = {field: name for field, name in names.items() if name != field and name in names}
            yield from ((node.lineno, name, field) for field, name in wrong.items() if name in wrong)


def name_of(value: ast.expr) -> str:
    """The name that a value bears: of a variable or a member, one that is chosen or called included."""
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.IfExp(body=inner) | ast.Call(func=ast.Name(), args=[inner]):
            return name_of(inner)
        case _:
            return ""
