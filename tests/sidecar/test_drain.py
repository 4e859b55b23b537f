"""SIGTERM to one of two nodes: what it ran goes on at the other one (SPEC section 14)."""

import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.sidecar.stage import (
    ENDED,
    Opening,
    Stage,
    create,
    definition,
    staged,
    staged_on_postgres,
    until,
)

EACH, TICKING = 12, 30
EXTERNAL = {"period": "external"}
CALL_SECONDS, RETRY_SECONDS = 4.0, 9
PATIENCE = 10.0
"""Seconds within which a job that moves takes triggers and reports again: daprd needs three of them."""
KINDS = ("report", "retry", "check", "call")
pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("opening", [staged_on_postgres, staged], ids=["postgres", "files"])
def test_what_a_draining_node_ran_goes_on_at_the_other(
    opening: Opening, qos: int, tmp_path: Path, programs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Executions that wait for a report, for a retry, between two checks, and calls that are under way."""
    with opening(tmp_path, programs, "one", "two") as stage:
        story = Story(stage, qos)
        story.begin()
        stage.cluster.apps["two"].send(signal.SIGTERM)
        told = story.go_on()
        with capsys.disabled():
            print(f"\nqos {qos}: {told}")
        story.check()


class Story:
    """A dozen jobs of each kind, each with one execution that is open."""

    def __init__(self, stage: Stage, qos: int) -> None:
        self.stage = stage
        self.qos = qos
        self.target = stage.target
        self.is_done = False
        self.failed: set[str] = set()
        self.target.answers |= {"/fail": self.fail_once, "/check": self.look, "/slow": answer_late}

    def begin(self) -> None:
        """All executions are open when it returns; the calls were sent last."""
        create(self.stage, [self.describe(kind, number) for kind in KINDS for number in range(EACH)])
        create(self.stage, [self.describe("probe", number) for number in range(EACH)])
        for kind in KINDS:
            for number in range(EACH):
                status, answer = self.stage.call("one", "POST", f"/jobs/{kind}{number}/trigger", {})
                assert status == 200, answer
        assert until(lambda: len(self.target.arrivals) == len(KINDS) * EACH, 30)
        time.sleep(0.3)

    def describe(self, kind: str, number: int) -> dict[str, Any]:
        """The definition of one job."""
        base = self.target.base
        members: dict[str, dict[str, Any]] = {
            "report": {
                "async": True,
                "request": [{"url": self.target.url, "body": {"url": "${schedulingFeedbackUrl}"}}],
            },
            "retry": {
                "request": [{"url": f"{base}/fail"}],
                "retry": [{"errorEquals": "500", "intervalSeconds": RETRY_SECONDS}],
            },
            "check": {"async": True, "checkUrl": f"{base}/check", "checkRateSeconds": 2},
            "call": {"request": [{"url": f"{base}/slow"}, {"url": f"{base}/then"}]},
            "probe": {"overlapPolicy": "allow"},
        }
        return definition(self.target, jobId=f"{kind}{number}", timer=EXTERNAL, qos=self.qos, **members[kind])

    def go_on(self) -> str:
        """Triggers and reports at the node that stays; the figures."""
        began = time.monotonic()
        waits: dict[str, float] = {}
        asks: list[Callable[[], None]] = []
        for number in range(EACH):
            asks.append(partial(self.ask, waits, f"/jobs/probe{number}/trigger", {}))
            url = self.target.feedback[f"report{number}"]
            path = "/" + url.split("/", 3)[3]
            asks.append(partial(self.ask, waits, path, {"status": "succeed"}))
        time.sleep(1)
        threads = [threading.Thread(target=ask) for ask in asks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.is_done = True
        until(self.has_ended, 40)
        ended = time.monotonic() - began
        self.waits = waits
        return f"longest wait {max(waits.values()):.1f} s, all ended after {ended:.1f} s, {self.results()}"

    def ask(self, waits: dict[str, float], path: str, body: object) -> None:
        """Calls until it is answered 200; how long that took."""
        began = time.monotonic()
        done = until(lambda: self.stage.call("one", "POST", path, body)[0] == 200, 40)
        waits[path] = time.monotonic() - began if done else 99.0

    def has_ended(self) -> bool:
        """Whether all executions that were open at the beginning have."""
        return sum(count for state, _, count in self.results() if state in ENDED) == len(KINDS) * EACH

    def results(self) -> list[Any]:
        """How many executions that were open at the beginning are in which state, with which error."""
        jobs = " OR ".join(f"job_id LIKE '{kind}%'" for kind in KINDS)
        return self.stage.rows(f"SELECT state, error, count(*) FROM executions WHERE {jobs} GROUP BY 1, 2")

    def check(self) -> None:
        """None is lost, none was sent twice, none had to wait for long."""
        assert self.results() == [("succeeded", None, len(KINDS) * EACH)]
        twice = {attempt: times for attempt, times in self.target.arrivals.items() if len(times) > 1}
        assert {one for one in twice if not one[0].startswith("call")} == set()
        assert all(len(times) == 2 for times in twice.values()), "each of its two steps once"
        assert max(self.waits.values()) < PATIENCE

    def fail_once(self, job_id: str) -> tuple[int, bytes]:
        """500 to the first attempt."""
        if job_id in self.failed:
            return 200, b"{}"
        self.failed.add(job_id)
        return 500, b"{}"

    def look(self, job_id: str) -> tuple[int, bytes]:
        """A check: done when the node has drained."""
        return 200, b'{"status": "succeed"}' if self.is_done else b'{"status": ""}'


def answer_late(job_id: str, seconds: float = CALL_SECONDS) -> tuple[int, bytes]:
    """The call of a step that takes its time."""
    time.sleep(seconds)
    return 200, b"{}"


def test_nodes_that_restart_one_after_the_other_fire_in_time(
    tmp_path: Path, programs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The second one stops as soon as the first is ready: no firing is lost, doubled or late for long."""
    with staged_on_postgres(tmp_path, programs, "one", "two") as stage:
        stage.target.answers["/slow"] = partial(answer_late, seconds=0.7)
        ticking = [
            definition(
                stage.target,
                jobId=f"tick{number}",
                timer={"dueTime": "1s", "period": "1s"},
                overlapPolicy="queue",
                qos=number % 2,
                request=[{"url": f"{stage.target.base}/{'run' if number < TICKING // 2 else 'slow'}"}],
            )
            for number in range(TICKING)
        ]
        create(stage, ticking)
        time.sleep(5)
        for name in ("one", "two"):
            app = stage.cluster.apps[name]
            app.stop()
            app.start()
            stage.await_ready(name)
        time.sleep(35)
        for number in range(TICKING):
            stage.insist("PUT", f"/jobs/tick{number}?active=0&drain=true", name="one")
        time.sleep(2)
        figures = judge_firings(stage)
        with capsys.disabled():
            print(f"\n{figures}")


def judge_firings(stage: Stage) -> str:
    """Asserts over executions and ledger; the figures."""
    rows = stage.rows(
        "SELECT job_id, planned_at, started_at, state, error FROM executions WHERE job_id LIKE 'tick%'"
    )
    late = sorted((started or 0) - planned for _, planned, started, *_ in rows)
    lost = [row for row in rows if row[4] == "lost"]
    skipped = stage.rows(
        "SELECT outcome, reason, count(*) FROM firings WHERE outcome <> 'fired' GROUP BY 1, 2"
    )
    figures = (
        f"{len(rows)} firings, latest {late[-1]}, p99 {late[len(late) * 99 // 100]}, {skipped}, lost {lost}"
    )
    assert len({(job, planned) for job, planned, *_ in rows}) == len(rows), figures
    assert lost == [], figures
    assert late[-1] < 1_000 * PATIENCE, figures
    return figures
