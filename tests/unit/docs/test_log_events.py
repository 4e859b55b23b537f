"""docs/operations.md: every event of the log has a row, and all events are written in one style."""

import ast
import re
from collections.abc import Iterator

from tests.unit.docs.pages import ROOT, read

# The steps of the service itself need no subject.
OF_THE_SERVICE = {"listening", "ready", "draining", "stopped", "dividing", "divided"}
# What became of the subject: a participle or an adjective, after `not` where it did not come to that.
STATES = r"[a-z]+ed|set|lost|swept|sent|written|stuck|taken|woken|read|kept|found|unsafe|unreachable"
STYLE = re.compile(rf"[a-z]+(_[a-z]+)*?(_not)?_({STATES})(_again)?")
WRITERS = {"log", "_log", "_look_later", "Tally"}


def events() -> Iterator[str]:
    """Every event word that is handed to a log, and to what logs on behalf of others."""
    for path in ROOT.glob("scheduler_service/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _name(node.func) in WRITERS:
                for one in node.args:
                    if isinstance(one, ast.Constant) and isinstance(one.value, str):
                        yield one.value


def documented() -> list[str]:
    """The first cells of the table of events."""
    _, _, section = read("docs/operations.md").partition("\n## Logs\n")
    return re.findall(r"(?m)^\| `(\w+)`", section.partition("\n## ")[0])


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", None) or getattr(function, "id", "")


def test_every_event_is_documented() -> None:
    """Once, and no other one is."""
    assert documented() == sorted(set(documented()))
    assert set(documented()) == set(events())
    assert len(documented()) > 40


def test_events_have_one_style() -> None:
    """`SUBJECT_PARTICIPLE` (`worker_lost`) or `SUBJECT_not_PARTICIPLE` (`history_not_written`)."""
    assert [one for one in sorted(set(events()) - OF_THE_SERVICE) if not STYLE.fullmatch(one)] == []
