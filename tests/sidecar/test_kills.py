"""Whatever dies, while firings and asynchronous executions run: nothing lost, nothing doubled."""

import math
import signal
import time
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from tests.sidecar.stage import (
    Opening,
    Stage,
    answer_well,
    comes_up,
    create,
    definition,
    staged,
    staged_on_postgres,
    until,
)

JOBS, ASYNC = 50, 200
BEFORE, AFTER = 6.0, 25.0
PAUSE = 30.0
AWAY = 25.0
GIVEN_UP = 10_000
LATEST = 10_000
"""ms: so long after its heartbeat a dead node is given up, and by so much more a firing may be late."""
CLOCKS_DIFFER = 100
"""ms: a node's clock runs on from its start and is cut to whole ms; the target's is the machine's."""
SLOWEST = 0.6
"""s: so most executions are under way for a while, and what dies always has some."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


def kill_app(stage: Stage) -> None:
    stage.cluster.apps["two"].kill()


def kill_sidecar(stage: Stage) -> None:
    stage.cluster.sidecars["two"].kill()


def kill_both(stage: Stage) -> None:
    kill_app(stage)
    kill_sidecar(stage)


def restart(name: str) -> Callable[[Stage], None]:
    def work(stage: Stage) -> None:
        part = getattr(stage.cluster, name)
        part.kill()
        assert until(lambda: comes_up(part), 30), part.last_lines(20)

    return work


def freeze(stage: Stage) -> None:
    stage.cluster.apps["two"].send(signal.SIGSTOP)
    stage.cluster.sidecars["two"].send(signal.SIGSTOP)
    time.sleep(PAUSE)
    stage.cluster.sidecars["two"].send(signal.SIGCONT)
    stage.cluster.apps["two"].send(signal.SIGCONT)


def take_placement_away(stage: Stage) -> None:
    stage.cluster.placement.kill()
    time.sleep(AWAY)
    assert until(lambda: comes_up(stage.cluster.placement), 30), stage.cluster.placement.last_lines(20)


def join_and_leave(stage: Stage) -> None:
    stage.start_node("three")
    stage.await_ready("three")
    time.sleep(5)
    stage.cluster.apps["three"].stop()
    stage.cluster.sidecars["three"].stop()


CASES: dict[str, Callable[[Stage], None]] = {
    "app": kill_app,
    "daprd": kill_sidecar,
    "app and daprd": kill_both,
    "redis": restart("redis"),
    "scheduler service": restart("scheduler"),
    "placement": restart("placement"),
    "database": restart("postgres"),
    "placement away for 25 s": take_placement_away,
    "frozen for 30 s": freeze,
    "third node": join_and_leave,
}
BOUNDED = ("app", "app and daprd", "placement", "placement away for 25 s", "frozen for 30 s")
"""After these no firing is later than 10 s after what was away is back or given up."""
ON_FILES = ("app and daprd",)
"""Once more without a database, as nodes of one machine may share files."""


@pytest.mark.parametrize(
    ("case", "opening"),
    [(case, staged_on_postgres) for case in CASES] + [(case, staged) for case in ON_FILES],
    ids=[*CASES, *(f"{case}, on files" for case in ON_FILES)],
)
def test_nothing_is_lost_or_doubled(
    case: str, opening: Opening, tmp_path: Path, programs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """50 firings a second and 200 open asynchronous executions of qos 1 (SPEC sections 3 and 8)."""
    with opening(tmp_path, programs, "one", "two") as stage:
        prepare(stage)
        time.sleep(BEFORE)
        await_calls_in_flight(stage)
        hit = time.time() * 1000
        CASES[case](stage)
        back = max(time.time() * 1000, hit + GIVEN_UP)
        time.sleep(AFTER)
        reported = report_all(stage)
        end = time.time() * 1000 - 3_000
        stop_timers(stage)
        time.sleep(5)
        told = judge(stage, hit, end, back, LATEST if case in BOUNDED else math.inf)
        with capsys.disabled():
            print(f"\n{case}: {told}, {reported} of {ASYNC} reports taken")
        assert reported == ASYNC
        states = stage.rows("SELECT state, count(*) FROM executions WHERE job_id LIKE 'wait%' GROUP BY state")
        assert states == [("succeeded", ASYNC)]


def answer_slowly(job_id: str) -> tuple[int, bytes]:
    """200, each job in its own time."""
    time.sleep(crc32(job_id.encode()) % 100 / 100 * SLOWEST)
    return answer_well(job_id)


def prepare(stage: Stage) -> None:
    """All jobs there, all asynchronous executions open."""
    stage.target.answers["/run"] = answer_slowly
    step = {"url": stage.target.url, "body": {"url": "${schedulingFeedbackUrl}"}}
    waiting = [
        definition(
            stage.target,
            jobId=f"wait{number}",
            timer={"period": "external"},
            request=[step],
            qos=1,
            timeoutSeconds=600,
            **{"async": True},
        )
        for number in range(ASYNC)
    ]
    ticking = [
        definition(
            stage.target, jobId=f"tick{number}", qos=number % 2, timer={"dueTime": "1s", "period": "1s"},
            overlapPolicy="allow",
        )
        for number in range(JOBS)
    ]  # fmt: skip
    create(stage, waiting)
    for number in range(ASYNC):
        assert stage.call("one", "POST", f"/jobs/wait{number}/trigger", {})[0] == 200
    create(stage, ticking)
    assert until(lambda: len(stage.target.feedback) >= ASYNC, 30)


def await_calls_in_flight(stage: Stage) -> None:
    """Returns while the calls of one moment are under way: then a kill costs the most."""
    seen = len(stage.target.heads)
    end = time.monotonic() + 5
    while len(stage.target.heads) < seen + 3:
        assert time.monotonic() < end, "no job fires"
        time.sleep(0.001)


def report_all(stage: Stage) -> int:
    """Reports every asynchronous execution by the living node; how many reports were taken."""
    base = f"http://127.0.0.1:{stage.cluster.nodes['one'].api}"
    taken = 0
    for number in range(ASYNC):
        path = "/" + stage.target.feedback[f"wait{number}"].split("/", 3)[3]
        taken += stage.insist("POST", base + path, {"status": "succeed"}, name="one") == 200
    return taken


def stop_timers(stage: Stage) -> None:
    for number in range(JOBS):
        stage.insist("PUT", f"/jobs/tick{number}?active=0&drain=true", name="one")


def judge(stage: Stage, hit: float, end: float, back: float, latest: float) -> str:
    """Asserts over the ledger, the executions and what the target saw; the figures."""
    rows = stage.rows(
        "SELECT uid, planned_at, started_at, state, error FROM executions WHERE job_id LIKE 'tick%'"
    )
    moments = [(uid, planned) for uid, planned, *_ in rows]
    doubled = len(moments) - len(set(moments))
    missing = 0
    for uid in {uid for uid, _ in moments}:
        planned = sorted(at for one, at in moments if one == uid and at <= end)
        ledger = stage.rows(
            f"SELECT planned_at, until FROM firings WHERE uid = '{uid}' AND outcome = 'skipped'"
        )
        expected = range(planned[0], int(end) + 1, 1_000)
        known = set(planned)
        missing += sum(
            at not in known and not any(first <= at <= last for first, last in ledger) for at in expected
        )
    after = max(started - max(planned, back) for _, planned, started, _, _ in rows if started)
    late = sorted(started - planned for _, planned, started, _, _ in rows if started and planned >= hit)
    lost = sum(error == "lost" for *_, error in rows)
    resent = {attempt: times for attempt, times in stage.target.arrivals.items() if len(times) > 1}
    recorded = stage.recorded()
    again = {
        attempt: (recorded[attempt], times)
        for attempt, times in resent.items()
        if recorded.get(attempt, math.inf) + CLOCKS_DIFFER < times[-1]
    }
    figures = (
        f"{len(rows)} firings, latest {late[-1] if late else 0} ms late, p50 {late[len(late) // 2]} ms, "
        f"p99 {late[len(late) * 99 // 100]} ms, {after:.0f} ms after the return, {lost} of qos 0 lost, "
        f"{len(resent)} steps sent again, "
        f"{doubled} doubled, {missing} missing"
    )
    assert (doubled, missing) == (0, 0), figures
    assert after <= latest, figures
    assert again == {}, f"recorded, and sent again: {again}; {figures}"
    return figures
