"""A calendar is changed on a real cluster, by a node that is killed at once (SPEC section 3)."""

import time
from pathlib import Path

import pytest

from tests.sidecar.stage import Stage, create, definition, staged_on_postgres, until

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
NODES = ("one", "two")
JOBS = [f"job{number}" for number in range(12)]
EACH_DAY = {"week": [1, 2, 3, 4, 5, 6, 7]}
NO_DAY: dict[str, list[int]] = {"week": []}
SECONDLY = {"period": "* * * * * ?", "calendar": "office"}


def put(stage: Stage, calendar: dict[str, list[int]], name: str) -> None:
    assert stage.insist("PUT", "/calendars/office", calendar, name=name) == 200


def fire_all(stage: Stage, patience: float) -> None:
    """Returns when each job has been called from now on."""
    began = time.time() * 1_000

    def silent() -> set[str]:
        arrivals = list(stage.target.arrivals.items())
        return set(JOBS) - {attempt[0] for attempt, at in arrivals if max(at) > began}

    assert until(lambda: not silent(), patience), silent()


def rest(stage: Stage, name: str) -> bool:
    """Whether no job has a firing to come."""
    read = (stage.call(name, "GET", f"/jobs/{job_id}")[1] for job_id in JOBS)
    return all(found is not None and found["data"]["nextFireTime"] is None for found in read)


def test_all_jobs_follow_a_change_over_a_kill(tmp_path: Path, programs: dict[str, str]) -> None:
    """Actors of both nodes; the change of a node that is killed at once is told by the other one."""
    with staged_on_postgres(tmp_path, programs, *NODES) as stage:
        put(stage, NO_DAY, "one")
        create(stage, [definition(stage.target, jobId=job_id, timer=SECONDLY) for job_id in JOBS])
        assert rest(stage, "two")
        put(stage, EACH_DAY, "two")
        fire_all(stage, 20)
        put(stage, NO_DAY, "one")
        assert until(lambda: rest(stage, "two"), 20)
        put(stage, EACH_DAY, "one")
        stage.cluster.apps["one"].kill()
        stage.cluster.sidecars["one"].kill()
        fire_all(stage, 90)
        assert stage.call("two", "DELETE", "/calendars/office")[0] == 409
