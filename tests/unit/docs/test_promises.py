"""The page of promises names tests that exist for each rule; the table of roles is that of the code."""

import re

from scheduler_service.api.application import OPERATIONS
from scheduler_service.api.request import ApiOperation, KeyScope
from tests.rows import each_row
from tests.unit.docs.pages import NAMED_TEST, functions_of, read
from tests.unit.docs.roles import Row, table

PAGE = "docs/promises.md"
ORDERS = "docs/decisions/0118-one-commit-on-three-placements.md"
FIRST, LAST = 2, 16
ROW = re.compile(r"\* (?P<rule>.+): (?P<tests>`tests/\S+`)")


def sections() -> dict[str, str]:
    """The text of each section by its heading."""
    _, *parts = re.split(r"^## ", read(PAGE), flags=re.MULTILINE)
    found = {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}
    assert len(found) == len(parts), "a heading stands twice"
    return found


def rows() -> list[tuple[str, str]]:
    """(rule, tests) of every line of every section."""
    found = [line for text in sections().values() for line in text.splitlines() if line.strip()]
    cells = [ROW.fullmatch(line) for line in found]
    assert all(cells), [line for line, cell in zip(found, cells, strict=True) if cell is None]
    return [(cell["rule"], cell["tests"]) for cell in cells if cell is not None]


def test_every_test_that_is_named_exists() -> None:
    """In its file, at the top level: a rule without a test is not held."""
    named = NAMED_TEST.findall(read(PAGE) + read(ORDERS))
    assert [f"{path}::{name}" for path, name in named if name not in functions_of(path)] == []
    # A rule has one line
    rules = [rule for rule, _ in rows()]
    assert sorted(rules) == sorted(set(rules))


@each_row(("rule", "tests"), rows())
def test_every_rule_has_a_test(rule: str, tests: str) -> None:
    """At least one, in the form that is checked."""
    named = tests.split("<br>")
    assert all(NAMED_TEST.fullmatch(one.strip()) for one in named), tests
    assert len(set(named)) == len(named), tests


def test_each_section_of_the_contract_is_there() -> None:
    """In its order, numbered and titled as there; the words (1) and the console (17) have no rules."""
    headings = re.findall(r"^## (\d+)\. (.+)$", read("docs/spec.md"), re.MULTILINE)
    wanted = [f"{number}. {title}" for number, title in headings if FIRST <= int(number) <= LAST]
    assert [heading for heading in sections() if heading in wanted] == wanted
    assert len(wanted) == LAST - FIRST + 1
    assert len(rows()) > 150


def row_of(operation: ApiOperation) -> Row:
    """What the code says of an operation."""
    if operation.is_open:
        return Row(operation.route, "none", True, True, False, operation.of_platform)
    narrow = (KeyScope.SERVICE in operation.scopes, KeyScope.LABELS in operation.scopes)
    return Row(operation.route, operation.role.value, *narrow, operation.by_service, operation.of_platform)


def test_the_table_is_that_of_the_code() -> None:
    """Each operation is in it, and no other route."""
    assert table() == {operation.route: row_of(operation) for operation in OPERATIONS}
