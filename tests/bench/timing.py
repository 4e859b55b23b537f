"""Measures the pure core: cron, templates, decisions. `python -m tests.bench.timing`.

Prints microseconds; on a busy machine the fastest run tells what the work itself costs. The limits are: a
usual expression's next firing under 20 µs, a hostile one parsed within 5 ms, its next firing within 5 ms.
"""

import gc
import time
from collections.abc import Callable
from datetime import UTC, datetime

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.domain.events import AlarmRang, CallEnded, CancelRequested, Created, Event, Triggered
from scheduler_service.domain.moments import as_moment
from scheduler_service.domain.wire import Answer
from scheduler_service.engine.machine import decide
from scheduler_service.language.expression import Names
from scheduler_service.language.rendering import Scope, render_json, render_url
from scheduler_service.language.template import compile_json, compile_url
from scheduler_service.timing.cron import Cron, parse_cron
from scheduler_service.timing.zones import load_zone, zone_names
from tests.unit.engine.rig import Rig

NOW = as_moment(datetime(2026, 3, 29, 0, 30, tzinfo=UTC))
USUAL = ("0 0/5 * * * ?", "0 30 2 * * ?", "0 0 9 ? * MON-FRI", "*/15 8-18 * * 1-5", "0 0 12 L * ?", "@daily")
ALL = {name: ",".join(map(str, span)) for name, span in {
    "sixty": range(60), "hours": range(24), "dates": range(1, 32), "months": range(1, 13),
    "days": range(1, 8), "years": range(1970, 2150)}.items()}  # fmt: skip
FIELDS = ("sixty", "sixty", "hours", "dates", "months")
HOSTILE = {
    "29 February of the last leap year": "0 0 0 29 2 ? 2196",
    "the last second of all": "59 59 23 31 12 ? 2199",
    "a fifth Sunday of February": "0 0 0 ? 2 1#5 2199,2188,2160",
    "never: 30 February": "0 0 0 30 2 ?",
    "never: L-29 in February": "0 0 0 L-29 2 ?",
    "every field a list of all": " ".join(ALL[name] for name in FIELDS) + " ?",
    "all years": f"0 0 0 29 2 ? {ALL['years']}",
    "many stars": f"{'*,' * 480}* * * * * ?",
    "many weekdays": f"0 0 0 ? 2 {'6#5,1#5,' * 115}7#5",
    "refused, with advice": f"0 9 * * {'*,' * 40}MON ?",
}
CHAIN = (
    (
        "http://t.test/orders/${$.order.id}?callback=${schedulingFeedbackUrl}",
        {"who": "${name}", "n": "${n}|json"},
    ),
    (
        "http://t.test/orders/${FIRST.id}/lines/${$.lines[0].id}",
        {"lines": "${$.lines}|json", "all": "${$..id}|json"},
    ),
)


def measure(name: str, work: Callable[[], object], runs: int = 2_000) -> None:
    """Prints a line: the fastest, median and 99th of 100 runs, without the garbage collector."""
    taken = []
    gc.disable()
    for _ in range(runs):
        began = time.perf_counter_ns()
        work()
        taken.append(time.perf_counter_ns() - began)
    gc.enable()
    taken.sort()
    shown = (taken[0], taken[runs // 2], taken[runs * 99 // 100])
    print(f"{name:44}" + "".join(f" {one / 1e3:9.1f}" for one in shown), flush=True)


def measure_cron() -> None:
    """Usual and hostile expressions: parsing, the next and the previous firing."""
    zone = load_zone("Europe/Berlin")
    for text in USUAL:
        cron = parse_cron(text)
        measure(f"parse {text}", lambda text=text: parse_cron(text))
        measure(f"next {text}", lambda cron=cron: cron.next(NOW, zone))
    for name, text in HOSTILE.items():
        measure(f"parse {name}", lambda text=text: _try(text), 200)
        cron = _try(text)
        if cron is not None:
            measure(f"next {name}", lambda cron=cron: cron.next(NOW, zone), 200)
            measure(f"previous {name}", lambda cron=cron: cron.previous(NOW, zone), 200)


def measure_zones() -> None:
    """The slowest zone to load, and a usual firing in it."""
    slowest = max(zone_names(), key=lambda name: len(load_zone(name).starts))
    measure(f"load {slowest}", lambda: load_zone.__wrapped__(slowest), 20)
    cron, zone = parse_cron("0 30 2 * * ?"), load_zone(slowest)
    measure(f"next in {slowest}", lambda: cron.next(NOW, zone))


def measure_templates() -> None:
    """Both steps of a chain: URL and body, compiled once, rendered again and again."""
    names = Names(resp_env_names=("FIRST",))
    made = [(compile_url(url, names=names), compile_json(body, names=names)) for url, body in CHAIN]
    root = {
        "order": {"id": 7},
        "name": "Ada",
        "n": 3,
        "FIRST": {"id": "a/b"},
        "lines": [{"id": 1}, {"id": 2}],
    }
    base = Scope(
        system={"schedulingFeedbackUrl": "http://127.0.0.1:8000/jobs/a/feedback/1?token=x"},
        environment={}, root=root, aliases={},
    )  # fmt: skip

    def render() -> None:
        for url, body in made:
            scope = Scope(base.system, base.environment, base.root, base.aliases)
            assert isinstance(render_url(url, scope), str)
            assert render_json(body, scope)

    measure("compile a two-step chain's templates", lambda: [
        (compile_url(url, names=names), compile_json(body, names=names)) for url, body in CHAIN])  # fmt: skip
    measure("render a two-step chain's templates", render)


def measure_decisions() -> None:
    """One `decide` for each event of an execution of two steps with a retry."""
    retry = [{"errorEquals": "500", "intervalSeconds": 1}]
    first = {"url": "http://t.test/1", "body": {"a": "${x}"}, "respEnvName": "ONE"}
    steps = [first, {"url": "http://t.test/${ONE.id}"}]
    rig = Rig(request=steps, retry=retry, timer={"period": "0 0/5 * * * ?"})
    _measure(rig, "create", Created(uid="uid", key=b"key"))
    _measure(rig, "trigger", Triggered(params=b'{"x": 1}'))
    _measure(rig, "step answered, next one sent", _answered(rig, 200, b'{"id": 1}'))
    _measure(rig, "step failed, retry waits", _answered(rig, 500, b""))
    rig.wall, rig.steady = rig.wall + 1_000, rig.steady + 1_000
    _measure(rig, "the retry is due", AlarmRang())
    _measure(rig, "cancel", CancelRequested(execute_number=1))
    rig.wall += rig.wait() or 0
    _measure(rig, "a firing is due", AlarmRang())
    _measure(rig, "step answered", _answered(rig, 200, b"{}"))


def main() -> None:
    """Prints all figures."""
    print(f"{'µs':44} {'fastest':>9} {'median':>9} {'p99':>9}")
    for group in (measure_cron, measure_zones, measure_templates, measure_decisions):
        group()


def _measure(rig: Rig, name: str, event: Event) -> None:
    job, now = rig.job, rig.now
    measure(f"decide: {name}", lambda: decide(job, event, now))
    rig.deliver(event)


def _answered(rig: Rig, status: int, body: bytes) -> CallEnded:
    return CallEnded(rig.call.token, Answer(status=status, body=body, elapsed=5, url=rig.request.url))


def _try(text: str) -> Cron | None:
    try:
        return parse_cron(text)
    except ExpressionError:
        return None


if __name__ == "__main__":
    main()
