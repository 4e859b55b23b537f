"""docs/traces.md: every span, attribute and variable is named, and nothing that is not there."""

import re

from tests.unit.docs.pages import ROOT, read

PAGE = "docs/traces.md"
ATTRIBUTE = re.compile(r"(?:punctual|http|server|error)\.[a-z_.]+[a-z_]")


def source(path: str) -> str:
    """A module's text."""
    return (ROOT / "scheduler_service" / path).read_text(encoding="utf-8")


def test_every_attribute_is_documented() -> None:
    """In the table of spans."""
    used = {name.strip('"') for name in re.findall(rf'"{ATTRIBUTE.pattern}"', source("telemetry/spans.py"))}
    table = read(PAGE).partition("\n| span |")[2].partition("\n\n")[0]
    assert used == set(ATTRIBUTE.findall(table))
    assert len(used) > 15


def test_every_variable_is_documented() -> None:
    """With the setting that it gives."""
    known = set(re.findall(r'"(OTEL_[A-Z_]+[A-Z])"', source("settings/otel_variables.py")))
    table = read(PAGE).partition("\n| variable |")[2].partition("\n\n")[0]
    assert known <= set(re.findall(r"OTEL_[A-Z_]+[A-Z]", table))
    members = set(re.findall(r'"(\w+)"\), ', source("settings/otel_variables.py")))
    assert {f"traces.{name}" for name in members if name != "traces"} <= set(
        re.findall(r"traces\.\w+", table)
    )
