"""The vocabulary of the log: every event word is in it, is written, and has a line in docs/logs.md."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from scheduler_service.telemetry.vocabulary import VOCABULARY
from tests.rows import each_row
from tests.unit.docs.pages import ROOT, parse_fresh, read

# The steps of the service itself need no subject.
OF_THE_SERVICE = {"listening", "ready", "draining", "stopped", "gathering", "gathered"}
# What became of the subject: a participle or an adjective, after `not` where it did not come to that.
STATES = r"[a-z]+ed|set|lost|left|swept|sent|written|stuck|taken|woken|read|kept|found|unsafe|unreachable"
STYLE = re.compile(rf"[a-z]+(_[a-z]+)*?(_not)?_({STATES})(_again)?")
WRITERS = {"log", "_log", "_look_later", "_log_sum", "Tally", "Outage"}
OF_EVERY_LINE = {"timestamp", "level", "event"}
SEVERAL_LINES = {"stack", "exception", "exc_info"}
"""Keys that structlog writes over several lines."""


@cache
def calls() -> list[tuple[str, ast.Call]]:
    """Every event word that is handed to a log, and to what logs on behalf of others."""
    return list(_find_calls())


def _find_calls() -> Iterator[tuple[str, ast.Call]]:
    for path in ROOT.glob("scheduler_service/**/*.py"):
        for node in ast.walk(parse_fresh(path)):
            if isinstance(node, ast.Call) and _name(node.func) in WRITERS:
                for one in node.args:
                    for word in _words(one):
                        yield word, node


def _words(node: ast.expr) -> Iterator[str]:
    """The word, or both of a choice."""
    if isinstance(node, ast.IfExp):
        yield from (*_words(node.body), *_words(node.orelse))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def events() -> set[str]:
    return {word for word, _ in calls()}


LINE = re.compile(r"\* `(?P<word>\w+)`(?: \((?P<keys>[^:]+)\))?: (?P<sentences>.+\.)")


def documented() -> dict[str, re.Match[str]]:
    """The lines of the list of events, by word."""
    lines = read("docs/logs.md").partition("\n## Events\n")[2].splitlines()
    found = {line: LINE.fullmatch(line) for line in lines if line.startswith("* ")}
    assert all(found.values()), [line for line, match in found.items() if match is None]
    return {match["word"]: match for match in found.values() if match}


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", None) or getattr(function, "id", "")


def test_every_event_is_in_the_vocabulary() -> None:
    """And every word of the vocabulary is written somewhere."""
    assert events() == set(VOCABULARY)
    assert len(VOCABULARY) > 60


def lines_wanted() -> list[str]:
    """All but those that say that a trouble is over: one sentence of the page is about these."""
    return sorted(word for word in VOCABULARY if not word.endswith("_again"))


def test_every_event_is_documented() -> None:
    """Once, in order, and no other one is. The end of a trouble has the level that the page says."""
    assert list(documented()) == lines_wanted()
    assert {VOCABULARY[word].level for word in set(VOCABULARY) - set(lines_wanted())} == {"info"}


@each_row("word", lines_wanted())
def test_its_line_has_its_keys(word: str) -> None:
    """None of them is one that every line of the log has."""
    documented_keys = set(re.findall(r"`(\w+)`", documented()[word]["keys"] or ""))
    used = {
        key.arg
        for one, call in calls()
        for key in call.keywords
        if one == word and key.arg and _name(call.func) not in {"Tally", "Outage"}
    }
    assert used <= documented_keys
    # Those by which floods are told apart are among them.
    assert set(VOCABULARY[word].kind) <= documented_keys
    assert not documented_keys & (OF_EVERY_LINE | SEVERAL_LINES)


def test_events_have_one_style() -> None:
    """`SUBJECT_PARTICIPLE` (`worker_lost`) or `SUBJECT_not_PARTICIPLE` (`history_not_written`)."""
    assert [one for one in sorted(events() - OF_THE_SERVICE) if not STYLE.fullmatch(one)] == []
