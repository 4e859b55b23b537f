"""The page of promises names tests that exist, a test for each rule, and every section of the contract."""

import ast
import re
from functools import cache

import pytest

from tests.unit.docs.pages import ROOT, read

PAGE = "docs/promises.md"
SECTIONS = {
    "2": "Job definition",
    "3": "Timers",
    "4": "The request chain",
    "5": "Synchronous and asynchronous jobs",
    "6": "Retry",
    "7": "Notifications",
    "8": "qos",
    "9": "Target URLs",
    "10": "API",
    "11": "Declared timers and check-timers",
    "12": "History and retention",
    "13": "Services and instances",
    "14": "Tenants, security, operation",
    "15": "Two hosts, one behaviour",
    "16": "Command line, settings, SDK",
}
LATER = (
    "queue://", "sign", "Keys, roles, tenants", "Audit", "Nodes",
    "Events", "Metrics", "Dapr", "PostgreSQL", "MySQL", "console",
)  # fmt: skip
NAMED = re.compile(r"`(tests/[\w/]+/test_\w+\.py)::(test_\w+)`")
ROW = re.compile(r"\| (?P<rule>.+?) \| (?P<tests>[^|]+) \|")


def sections() -> dict[str, str]:
    """The text of each section by its heading."""
    _, *parts = re.split(r"^## ", read(PAGE), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def rows() -> list[tuple[str, str]]:
    """(rule, tests) of every row of every section but the last."""
    found = []
    for heading, text in sections().items():
        lines = [line for line in text.splitlines() if line.startswith("| ") and heading != "Not yet"]
        assert lines[:2] == ["| rule | test |", "| --- | --- |"] or heading == "Not yet", heading
        found += lines[2:]
    cells = [ROW.fullmatch(line) for line in found]
    assert all(cells), [line for line, cell in zip(found, cells, strict=True) if cell is None]
    return [(cell["rule"], cell["tests"]) for cell in cells if cell is not None]


@cache
def defined_in(path: str) -> frozenset[str]:
    """The names of the tests that a file defines at its top; none where there is no such file."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def test_every_test_that_is_named_exists() -> None:
    """In its file, at the top: a row that points to nothing promises nothing."""
    named = NAMED.findall(read(PAGE))
    assert [f"{path}::{name}" for path, name in named if name not in defined_in(path)] == []


@pytest.mark.parametrize(("rule", "tests"), rows())
def test_every_rule_has_a_test(rule: str, tests: str) -> None:
    """One at least, in the one form that is checked."""
    named = tests.split("<br>")
    assert all(NAMED.fullmatch(one.strip()) for one in named), tests
    assert len(set(named)) == len(named), tests


def test_no_rule_stands_twice() -> None:
    """Whoever changes a rule finds it in one place."""
    rules = [rule for rule, _ in rows()]
    assert sorted(rules) == sorted(set(rules))


@pytest.mark.parametrize(("number", "title"), SECTIONS.items())
def test_each_section_is_there(number: str, title: str) -> None:
    """Numbered and titled as in the contract, and not empty."""
    assert f"{number}. {title}" in sections()
    assert len(rows()) > 150


@pytest.mark.parametrize("word", LATER)
def test_what_is_not_there_yet_is_said(word: str) -> None:
    """In the table at the end, so that nobody looks for its test."""
    assert word in sections()["Not yet"]
