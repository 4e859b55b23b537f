"""Twenty instances of three services come and go at two real nodes that are killed, stopped and started.

As tests/conformance/hosts/test_one_registry.py, on daprd and PostgreSQL, with sockets and real time.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sidecar.real_fleet import KNOWN_WITHIN_MS, RealFleet, wall
from tests.sidecar.stage import Stage, definition, staged_on_postgres, until

NODES = ("one", "two")
SERVICES = ("shop", "till", "yard")
INSTANCES = 20
STEP_SECONDS = 0.25
DEAD_SECONDS = 11.0
"""So long a dead node's name is taken."""
ENVIRON = {"PUNCTUAL_SERVICES__CHECK_TIMERS_SECONDS": "5"}
UNREACHED = ("no_instance", "connect")
Disturbance = Callable[[Stage, str], None]


def kill_app(stage: Stage, name: str) -> None:
    stage.cluster.apps[name].kill()


def kill_sidecar(stage: Stage, name: str) -> None:
    stage.cluster.sidecars[name].kill()


def kill_both(stage: Stage, name: str) -> None:
    kill_app(stage, name)
    kill_sidecar(stage, name)


def stop_app(stage: Stage, name: str) -> None:
    stage.cluster.apps[name].stop()


DISTURBANCES: tuple[Disturbance, ...] = (kill_app, kill_sidecar, kill_both, stop_app)


class Story:
    """One seed of what happens to whom."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.chance = random.Random(seed)
        self.fleet = RealFleet(stage, SERVICES, INSTANCES, self.chance)
        self.asked: Counter[str] = Counter()
        self.destroyed = 0
        self._order = list(DISTURBANCES)
        self.chance.shuffle(self._order)

    def begin(self) -> None:
        """Each service declares a job that fires every second; one more is triggered."""
        for service in SERVICES:
            step = [{"url": f"service://{service}/run"}]
            declared = definition(
                self.stage.target, jobId=f"{service}-tick", qos=1, request=step, overlapPolicy="queue",
                timer={"dueTime": "1s", "period": "1s"},
            )  # fmt: skip
            registered = self.stage.call("one", "PUT", f"/services/{service}", {"timers": [declared]})
            assert registered[0] in (200, 201), registered
            asked = definition(
                self.stage.target, qos=1, request=step, timer={"period": "external"}, overlapPolicy="allow"
            )
            assert self.stage.call("one", "POST", f"/jobs/{service}-ask", asked)[0] == 201
        for one in self.fleet.instances[: 2 * len(SERVICES)]:
            one.become("there")

    def play(self, seconds: float) -> None:
        """Things happen; a node is disturbed, comes back, and then the other one."""
        end, turns = time.monotonic() + seconds, 0
        down, until_then = "", time.monotonic() + 5
        while time.monotonic() < end or down:
            self.fleet.happen()
            self.ask()
            if time.monotonic() < until_then:
                pass
            elif not down:
                down = NODES[turns % 2]
                self._order[turns % len(self._order)](self.stage, down)
                turns, until_then = turns + 1, time.monotonic() + DEAD_SECONDS
            elif self.is_back(down):
                down, until_then = "", time.monotonic() + 3
            time.sleep(STEP_SECONDS)
        assert turns >= 2

    def ask(self) -> None:
        """A job is triggered; now and then a declared one is destroyed behind its service's back."""
        service = self.chance.choice(SERVICES)
        name = self.chance.choice(NODES)
        status, _ = self.stage.call(name, "POST", f"/jobs/{service}-ask/trigger", {}, seconds=2)
        self.asked[service] += status == 200
        if self.chance.random() < 0.03:
            status, _ = self.stage.call(name, "DELETE", f"/jobs/{service}-tick", seconds=2)
            self.destroyed += status == 200

    def is_back(self, name: str) -> bool:
        """Whether the node takes work; what of it is not there is started."""
        for part in (self.stage.cluster.sidecars[name], self.stage.cluster.apps[name]):
            if not part.is_running:
                part.start()
        return self.stage.call(name, "GET", "/health/ready", seconds=1)[0] == 200

    def open_ones(self) -> list[Any]:
        """Executions of the triggered jobs that have not ended."""
        return self.stage.rows(
            "SELECT job_id, execute_number, state FROM executions "
            "WHERE job_id LIKE '%-ask' AND ended_at IS NULL"
        )

    def ended_without_cause(self) -> list[str]:
        """Executions that ended as if nobody was there, though somebody was all the time."""
        found = []
        rows = self.stage.rows(
            "SELECT job_id, execute_number, state, failure_type, error, created_at, ended_at FROM executions "
            "WHERE ended_at IS NOT NULL AND state NOT IN ('succeeded', 'skipped') "
            "AND (job_id LIKE '%-ask' OR job_id LIKE '%-tick')"
        )
        for job_id, number, state, failure, error, created, ended in rows:
            service = job_id.partition("-")[0]
            since = created - KNOWN_WITHIN_MS
            if failure == "connect" and self.fleet.died_within(service, since, ended):
                continue  # a call that it had taken died with it
            if state != "cancelled" and (
                failure not in UNREACHED or self.fleet.was_there(service, since, ended)
            ):
                found.append(f"{job_id} {number}: {state}, {failure}, {error} at {created} to {ended}")
        return found

    def come_back(self) -> bool:
        """Whether the declared job of each service is there and has fired within the last seconds."""
        since = wall() - 5_000
        rows = self.stage.rows(
            f"SELECT DISTINCT job_id FROM executions WHERE state = 'succeeded' AND planned_at > {since}"
        )
        return {f"{service}-tick" for service in SERVICES} <= {job_id for (job_id,) in rows}

    def doubled(self) -> list[Any]:
        """Moments of a declared job's life that fired twice."""
        return self.stage.rows(
            "SELECT uid, planned_at, count(*) FROM executions WHERE job_id LIKE '%-tick' "
            "AND triggered_by <> 'manual' GROUP BY uid, planned_at HAVING count(*) > 1"
        )


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("seed", "seconds"),
    [(1, 60), *(pytest.param(seed, 300, marks=pytest.mark.long) for seed in (2, 3))],
)
def test_a_step_goes_to_who_is_there(
    seed: int, seconds: float, tmp_path: Path, programs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing ends as `no_instance` while one is; declared jobs of all come back (SPEC sections 11, 13)."""
    with staged_on_postgres(tmp_path, programs, *NODES, environ=ENVIRON) as stage:
        story = Story(stage, seed)
        try:
            story.begin()
            story.play(seconds)
            story.fleet.bring_all()
            assert until(lambda: not story.open_ones(), 90), story.open_ones()
            assert until(story.come_back, 40), stage.call("one", "GET", "/jobs")
        finally:
            story.fleet.end()
        states = stage.rows("SELECT state, count(*) FROM executions GROUP BY state ORDER BY state")
        with capsys.disabled():
            calls = sum(one.calls for one in story.fleet.instances)
            print(f"\nseed {seed}: {calls} calls, {states}, {story.destroyed} declared jobs destroyed")
        astray = [line for one in story.fleet.instances for line in one.astray]
        assert (astray, story.ended_without_cause(), story.doubled()) == ([], [], [])
