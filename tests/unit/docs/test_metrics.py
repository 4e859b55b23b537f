"""docs/metrics.md has every metric, `deploy` asks for what there is, docs/logs.md has every event."""

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import promql_parser
import yaml

from scheduler_service.telemetry.log_events import VOCABULARY
from scheduler_service.telemetry.metrics.metric_list import FAMILIES, Family, MetricKind
from tests.rows import each_row
from tests.unit.docs.pages import ROOT, anchors, fences, parse_fresh, read, rows

PAGE = "docs/metrics.md"
RULES = "deploy/prometheus/alerts.yaml"
DASHBOARD = "deploy/grafana/punctual.json"
OPERATIONS = "docs/operations.md"
TARGET = {"instance", "job"}
"""Labels that Prometheus adds itself."""

UNITS = ("_seconds", "_bytes", "_total", "_info", "_size")
CHILDREN = ("expr", "lhs", "rhs", "vector_selector")


def documented() -> list[list[str]]:
    """The rows of the tables of metrics."""
    _, _, part = read(PAGE).partition("\n## The metrics\n")
    found = rows(part.partition("\n## ")[0])
    return [cells for cells in found if cells[0].startswith("`")]


def row_of(family: Family) -> list[str]:
    """What the page has to say."""
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return [f"`{family.name}`", f"{family.kind.value}: {labels}".removesuffix(": "), family.help]


def series() -> dict[str, set[str]]:
    """The labels of each series by its name, as Prometheus stores it."""
    found: dict[str, set[str]] = {}
    for family in FAMILIES:
        labels = {"process", *family.labels, *TARGET}
        if family.kind is MetricKind.HISTOGRAM:
            found[f"{family.name}_bucket"] = labels | {"le"}
            found |= {f"{family.name}_{end}": labels for end in ("sum", "count")}
        else:
            found[family.name] = labels
    return found


def rules() -> list[dict[str, Any]]:
    """All rules of alerts."""
    groups: list[dict[str, Any]] = yaml.safe_load(read(RULES))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """(where, expression) of all rules, panels, and examples of the page."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in json.loads(read(DASHBOARD))["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for number, example in enumerate(fences(read(PAGE), "promql")):
        yield f"{PAGE} {number}", example


def flaws(expression: str) -> list[str]:
    """The metrics that there are not, and labels that the metrics of the expression do not have.

    Raises ValueError where it is no PromQL.
    """
    plain = expression.replace("$__rate_interval", "5m").replace("$instance", ".*")
    selectors: list[Any] = []
    named: set[str] = set()
    _walk(promql_parser.parse(plain), selectors, named)
    known, missing, labels = series(), [], set()
    for selector in selectors:
        if selector.name not in known:
            missing.append(str(selector.name))
            continue
        labels |= known[selector.name]
        used = {matcher.name for matcher in selector.matchers.matchers}
        missing += sorted(used - known[selector.name])
    return missing + sorted(named - labels)


def _walk(node: Any, selectors: list[Any], named: set[str]) -> None:
    if isinstance(node, promql_parser.VectorSelector):
        selectors.append(node)
    if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
        named.update(node.modifier.labels)
    for name in CHILDREN:
        child = getattr(node, name, None)
        if child is not None:
            _walk(child, selectors, named)
    for child in getattr(node, "args", None) or ():
        _walk(child, selectors, named)


def test_every_metric_has_a_row_and_no_other_has_one() -> None:
    """With its type, its labels and its meaning, in the same words as the answer to a scrape."""
    assert documented() == [row_of(family) for family in FAMILIES]
    assert len(FAMILIES) > 50


@each_row("family", FAMILIES, ids=lambda family: str(family.name))
def test_names_follow_the_conventions(family: Family) -> None:
    """A prefix; `_total` for counters alone; base units; no colon, no label that Prometheus adds."""
    assert re.fullmatch(r"punctual(_[a-z]+)+", family.name)
    assert family.name.endswith("_total") == (family.kind is MetricKind.COUNTER)
    assert not family.name.endswith(("_ms", "_milliseconds", "_kb", "_count", "_sum", "_bucket"))
    assert not (TARGET | {"process", "le"}) & set(family.labels)
    if family.kind is MetricKind.HISTOGRAM:
        assert family.name.endswith(UNITS)
        assert list(family.bounds) == sorted(set(family.bounds))
    else:
        assert family.bounds == ()


@each_row(("where", "expression"), list(expressions()))
def test_each_expression_asks_for_what_there_is(where: str, expression: str) -> None:
    """Metrics, labels of selectors, and labels by which is summed."""
    assert flaws(expression) == [], where


@each_row(
    ("expression", "found"),
    [
        ("rate(punctual_turn_total[5m])", ["punctual_turn_total"]),
        ('punctual_jobs{colour="red"}', ["colour"]),
        ("sum by (colour) (punctual_jobs)", ["colour"]),
        ("punctual_firing_lateness_seconds", ["punctual_firing_lateness_seconds"]),
    ],
)
def test_what_there_is_not_is_found(expression: str, found: list[str]) -> None:
    """In every place of an expression."""
    assert flaws(expression) == found


def test_each_rule_says_what_is_wrong_and_where_to_look() -> None:
    """A summary, a description, a severity, and a runbook with a heading of its own."""
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 15
    headings = anchors(read(OPERATIONS))
    for rule in rules():
        notes = rule["annotations"]
        assert notes["summary"], rule["alert"]
        assert notes["description"], rule["alert"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert notes["runbook"] == f"{OPERATIONS}#{rule['alert'].lower()}"
        assert rule["alert"].lower() in headings
        assert re.fullmatch(r"\d+m", rule["for"])


def test_templates_of_rules_use_labels_that_their_expressions_have() -> None:
    """`{{ $labels.x }}` would else be empty at night."""
    for rule in rules():
        text = " ".join(rule["annotations"].values())
        used = set(re.findall(r"\$labels\.(\w+)", text))
        known = set().union(*(labels for name, labels in series().items() if name in rule["expr"]))
        grouped = [set(re.split(r",\s*", found)) for found in re.findall(r"by \(([^)]*)\)", rule["expr"])]
        assert used <= known, rule["alert"]
        assert all(used <= labels for labels in grouped), rule["alert"]


def test_the_dashboard_can_be_loaded() -> None:
    """Panels with numbers of their own, which do not overlap, and variables that are declared."""
    dashboard = json.loads(read(DASHBOARD))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 20
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    declared = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) - {"__rate_interval"}
    assert used == declared


def test_the_example_of_a_scrape_names_the_route() -> None:
    """And the file of rules beside it."""
    example = yaml.safe_load(read("deploy/prometheus/scrape.yaml"))
    (scrape,) = example["scrape_configs"]
    assert scrape["metrics_path"] == "/metrics"
    assert example["rule_files"] == ["alerts.yaml"]


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


LINE = re.compile(r"\* `(?P<word>\w+)`(?:, (?P<level>\w+))?(?: \((?P<keys>[^:]+)\))?: (?P<sentences>.+\.)")


def documented_of_log_events() -> dict[str, re.Match[str]]:
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
    assert list(documented_of_log_events()) == lines_wanted()
    assert {VOCABULARY[word].level for word in set(VOCABULARY) - set(lines_wanted())} == {"info"}


def test_each_line_has_its_level() -> None:
    """Where it is not `warning`, which the page says of the others."""
    said = {word: line["level"] or "warning" for word, line in documented_of_log_events().items()}
    assert said == {word: VOCABULARY[word].level for word in lines_wanted()}


@each_row("word", lines_wanted())
def test_its_line_has_its_keys(word: str) -> None:
    """None of them is one that every line of the log has."""
    documented_keys = set(re.findall(r"`(\w+)`", documented_of_log_events()[word]["keys"] or ""))
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
