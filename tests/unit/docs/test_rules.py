"""Each rule of `deploy` fires while its trouble lasts, over the exposition at the shipped scrape interval."""

import itertools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import promql_parser
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scheduler_service.app.metrics import OUTBOX_SECONDS
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.exposition import render
from scheduler_service.telemetry.metrics.gathering import Gathering
from scheduler_service.telemetry.metrics.metric_list import FAMILIES, Family, MetricKind, Sample
from tests.rows import each_row
from tests.unit.docs.pages import read

(SCRAPE,) = yaml.safe_load(read("deploy/prometheus/scrape.yaml"))["scrape_configs"]
STEP = int(SCRAPE["scrape_interval"].removesuffix("s"))
RULES = {
    rule["alert"]: rule
    for group in yaml.safe_load(read("deploy/prometheus/alerts.yaml"))["groups"]
    for rule in group["rules"]
}
Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
COMPARED = {">": operator.gt, "==": operator.eq}


class Storage:
    """What was scraped: (second, value by labels) in order. A series that is not in the last one is stale."""

    def __init__(self) -> None:
        self._scrapes: list[tuple[int, Vector]] = []

    def scrape(self, now: int, text: str) -> None:
        """Takes the text in."""
        samples = (one for family in text_string_to_metric_families(text) for one in family.samples)
        found = {
            frozenset({**one.labels, "__name__": one.name, "instance": "a:1"}.items()): one.value
            for one in samples
        }
        self._scrapes.append((now, found))

    def range(self, selector: Any, now: int, seconds: float) -> dict[Labels, list[tuple[int, float]]]:
        """The points of the last `seconds`, without the names."""
        found: dict[Labels, list[tuple[int, float]]] = {}
        for second, values in self._scrapes:
            for labels, value in values.items() if now - seconds < second <= now else ():
                if fits(dict(labels), selector):
                    found.setdefault(without(labels, "__name__"), []).append((second, value))
        return found

    def instant(self, selector: Any, now: int) -> Vector:
        """The values of the last scrape, which is that of `now`."""
        return {labels: points[-1][1] for labels, points in self.range(selector, now, 1).items()}


def without(labels: Labels, *names: str) -> Labels:
    return frozenset(pair for pair in labels if pair[0] not in names)


def fits(labels: dict[str, str], selector: Any) -> bool:
    if labels["__name__"] != selector.name:
        return False
    return all(
        re.fullmatch(
            one.value if one.op == promql_parser.MatchOp.Re else re.escape(one.value),
            labels.get(one.name, ""),
        )
        for one in selector.matchers.matchers
    )


def rise(points: Sequence[tuple[int, float]]) -> float:
    """What a counter rose by, a restart from 0 included."""
    values = [value for _, value in points]
    return sum(b - a if b >= a else b for a, b in itertools.pairwise(values))


def extrapolated(points: Sequence[tuple[int, float]], now: int, seconds: float) -> float:
    """`increase`, as Prometheus extrapolates it to the ends of the range."""
    first, last = points[0][0], points[-1][0]
    sampled, average = last - first, (last - first) / (len(points) - 1)
    up = rise(points)
    ends = [first - (now - seconds), now - last]
    if up > 0 and points[0][1] >= 0:
        ends[0] = min(ends[0], sampled * points[0][1] / up)
    return up * (sampled + sum(end if end < average * 1.1 else average / 2 for end in ends)) / sampled


def quantile(wanted: float, vector: Vector) -> Vector:
    """`histogram_quantile`, within a bucket by straight line."""
    grouped: dict[Labels, list[tuple[float, float]]] = {}
    for labels, value in vector.items():
        grouped.setdefault(without(labels, "le"), []).append((float(dict(labels)["le"]), value))
    found = {}
    for labels, unsorted in grouped.items():
        buckets = sorted(unsorted)
        rank = wanted * buckets[-1][1]
        if buckets[-1][1] > 0:
            at = next(index for index, (_, count) in enumerate(buckets) if count >= rank)
            low, below = buckets[at - 1] if at else (0.0, 0.0)
            high, count = buckets[at]
            found[labels] = (
                low if at == len(buckets) - 1 else low + (high - low) * (rank - below) / (count - below)
            )
    return found


def evaluate(node: Any, kept: Storage, now: int) -> Any:
    """The value of an expression of the rules. Raises KeyError or ValueError for what none of them uses."""
    match node:
        case promql_parser.NumberLiteral():
            return node.val
        case promql_parser.VectorSelector():
            return kept.instant(node, now)
        case promql_parser.Call():
            return call(node, kept, now)
        case promql_parser.AggregateExpr():
            gather: Any = {"sum": sum, "max": max}[str(node.op)]
            assert node.modifier is not None  # all rules say `by`
            groups: dict[Labels, list[float]] = {}
            for labels, value in evaluate(node.expr, kept, now).items():
                by = frozenset(pair for pair in labels if pair[0] in node.modifier.labels)
                groups.setdefault(by, []).append(value)
            return {labels: gather(values) for labels, values in groups.items()}
        case promql_parser.BinaryExpr():
            left, right = evaluate(node.lhs, kept, now), evaluate(node.rhs, kept, now)
            if str(node.op) == "/":
                return {key: left[key] / right[key] for key in left.keys() & right.keys() if right[key]}
            if str(node.op) == "unless":
                return {labels: value for labels, value in left.items() if labels not in right}
            compare = COMPARED[str(node.op)]
            return {labels: value for labels, value in left.items() if compare(value, right)}
    raise ValueError(f"no rule has used {node} so far")


def call(node: Any, kept: Storage, now: int) -> Vector:
    name, argument = node.func.name, node.args[-1]
    if name == "histogram_quantile":
        return quantile(node.args[0].val, evaluate(argument, kept, now))
    if name == "absent":
        return {} if evaluate(argument, kept, now) else {frozenset(): 1.0}
    seconds = argument.range.total_seconds()
    found = kept.range(argument.vector_selector, now, seconds)
    if name == "changes":
        return {key: sum(a[1] != b[1] for a, b in itertools.pairwise(p)) for key, p in found.items()}
    per = {"increase": 1.0, "rate": seconds}[name]
    return {key: extrapolated(p, now, seconds) / per for key, p in found.items() if len(p) > 1}


class Alarm:
    """One rule; `is_firing` once it has held for `for:` at each evaluation."""

    def __init__(self, rule: dict[str, Any]) -> None:
        self._expression = promql_parser.parse(rule["expr"])
        self._for = int(rule["for"].removesuffix("m")) * 60
        self._since: dict[Labels, int] = {}
        self.is_firing = False

    def judge(self, kept: Storage, now: int) -> None:
        """As each evaluation does."""
        held = evaluate(self._expression, kept, now)
        self._since = {labels: self._since.get(labels, now) for labels in held}
        self.is_firing |= any(now - since >= self._for for since in self._since.values())


def text_of(samples: Iterable[Sample]) -> str:
    return render([("0", one) for one in samples], "text/plain").body.decode()


def sample(family: Family, value: float, *labels: str) -> Sample:
    """Of a histogram: `value` observations, all in the last bucket but one."""
    if family.kind is MetricKind.HISTOGRAM:
        return Sample(family.name, labels, value, (0,) * (len(family.bounds) - 1) + (int(value), 0))
    return Sample(family.name, labels, value)


Trouble = Callable[[int], float]
"""The value of a metric at the second."""


def rising(per_scrape: float) -> Trouble:
    return lambda second: second // STEP * per_scrape


def always(value: float) -> Trouble:
    return lambda _: value


BY_NAME = {family.name: family for family in FAMILIES}
ABSENT: Trouble = always(-1)
TROUBLES: dict[str, list[tuple[str, tuple[str, ...], Trouble, Trouble]]] = {
    "PunctualGone": [("build_info", ("1", "", "h"), always(1), ABSENT)],
    "PunctualProcessDown": [("process_up", (), always(1), always(0))],
    "PunctualProcessRestarts": [("process_start_time_seconds", (), always(7), lambda at: at // 120)],
    "PunctualFiringsLate": [("firing_lateness_seconds", (), always(9), rising(1))],
    "PunctualFiringsOverdue": [("firings_due", (), always(100), always(101))],
    "PunctualExecutionsFail": [
        ("executions_total", ("terminated", "business"), rising(1), rising(2)),
        ("executions_total", ("succeeded", "none"), rising(10), rising(10)),
    ],
    "PunctualTargetsUnreached": [("calls_total", ("timeout",), rising(STEP - 1), rising(STEP + 1))],
    "PunctualDeliveriesGivenUp": [("deliveries_total", ("failed",), always(3), rising(1))],
    "PunctualOutboxStuck": [("outbox_oldest_seconds", (), always(900), always(901))],
    "PunctualStoreDown": [("store_up", ("state",), always(1), always(0))],
    "PunctualHistoryBehind": [("history_queue_bytes", (), always(2**25), always(2**25 + 1))],
    "PunctualEventLoopHeld": [("event_loop_lag_seconds", (), always(9), rising(1))],
    "PunctualQueueWaits": [("queue_oldest_seconds", ("q",), always(300), always(301))],
    "PunctualNoInstance": [("instances", ("shop", "online"), always(1), always(0))],
    "PunctualNodeLost": [("nodes", ("cut off",), always(0), always(1))],
    "PunctualDescriptorsShort": [
        ("process_open_fds", (), always(90), always(91)),
        ("process_max_fds", (), always(100), always(100)),
    ],
    "PunctualCallersRefused": [
        ("api_connections_closed_total", ("tcp", "refused"), always(5), rising(1)),
    ],
    "PunctualApiFails": [
        ("api_requests_total", ("GET", "/jobs", "500"), rising(1), rising(2)),
        ("api_requests_total", ("GET", "/jobs", "200"), rising(30), rising(30)),
    ],
    "PunctualSpansDropped": [("spans_dropped_total", ("stopped",), always(5), rising(1))],
    "PunctualScrapeIncomplete": [("scrape_errors", ("outbox",), always(0), always(1))],
}


def test_each_rule_has_a_trouble() -> None:
    """A new rule needs one."""
    assert list(TROUBLES) == list(RULES)


@each_row("name", RULES)
def test_a_rule_fires_while_its_trouble_lasts(name: str) -> None:
    """And not at the bound of its trouble."""
    assert [fires(name, is_ill=is_ill) for is_ill in (False, True)] == [False, True]


@each_row(
    ("name", "paused"),
    [
        ("PunctualQueueWaits", sample(metric_list.QUEUE_PAUSED, 60, "q")),
        ("PunctualNoInstance", sample(metric_list.SERVICE_PAUSED, 60, "shop")),
    ],
)
def test_what_is_paused_is_no_trouble(name: str, paused: Sample) -> None:
    """Nobody claims or answers there on purpose."""
    assert not fires(name, is_ill=True, beside=[paused])


def fires(name: str, *, is_ill: bool, beside: Sequence[Sample] = ()) -> bool:
    """Within what it looks back, what it waits and some minutes; `beside` is shown too."""
    alarm, kept = Alarm(RULES[name]), Storage()
    for now in range(0, 60 * (sum(minutes_of(RULES[name])) + 5), STEP):
        kept.scrape(now, text_of([*figures(name, now, is_ill=is_ill), *beside]))
        alarm.judge(kept, now)
        if alarm.is_firing:
            return True
    return False


def minutes_of(rule: dict[str, Any]) -> tuple[int, int]:
    """How far a rule looks back at most, and for how long its trouble has to last."""
    ranges = re.findall(r"\[(\d+)m\]", rule["expr"])
    return max(map(int, ranges), default=0), int(rule["for"].removesuffix("m"))


def figures(name: str, now: int, *, is_ill: bool) -> list[Sample]:
    """What the service shows."""
    shown = [
        (BY_NAME[f"punctual_{end}"], labels, ill if is_ill else well)
        for end, labels, well, ill in TROUBLES[name]
    ]
    return [sample(family, how(now), *labels) for family, labels, how in shown if how is not ABSENT]


async def test_the_outbox_s_rule_fires_though_its_answer_is_kept() -> None:
    """Asked for every 30 s, the figure is in each scrape."""
    moment = [0.0]
    gathering = Gathering(clock=lambda: moment[0])

    async def ask() -> Sequence[Sample]:
        return [Sample(metric_list.OUTBOX_AGE.name, (), 1_000 + moment[0])]

    gathering.ask("outbox", ask, keep_seconds=OUTBOX_SECONDS)
    alarm, kept = Alarm(RULES["PunctualOutboxStuck"]), Storage()
    for now in range(0, 900, STEP):
        moment[0] = now + (now // STEP % 3) / 10  # a scrape is never quite on time
        kept.scrape(now, text_of(await gathering.collect()))
        alarm.judge(kept, now)
    assert alarm.is_firing
