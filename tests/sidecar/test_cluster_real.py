"""The promises of a cluster on the real programs, two nodes (SPEC section 15)."""

import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.sidecar.stage import Stage, definition, staged, until

EXTERNAL = {"period": "external"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, programs: dict[str, str]) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("cluster"), programs, "one", "two") as opened:
        yield opened


def test_a_job_is_created_triggered_and_read_on_any_node(stage: Stage) -> None:
    """One job wherever it is asked for; its execution is in the history within a second."""
    for number in range(4):
        path = f"/jobs/any{number}"
        assert stage.call("one", "POST", path, definition(stage.target, timer=EXTERNAL))[0] == 201
        assert stage.call("two", "POST", path, definition(stage.target, timer=EXTERNAL))[0] == 200
        status, answer = stage.call("two", "POST", f"{path}/trigger", {})
        assert (status, answer["data"]["executeNumber"]) == (200, 1)

    def all_there() -> bool:
        found = stage.call("one", "GET", "/executions?state=succeeded&limit=50")[1]["data"]["items"]
        return {one["jobId"] for one in found} >= {f"any{number}" for number in range(4)}

    assert until(all_there, 10)


def test_timers_fire_once_and_on_time(stage: Stage) -> None:
    """Every second, on both nodes, each moment once."""
    for number in range(6):
        body = definition(stage.target, timer={"dueTime": "1s", "period": "1s"})
        assert stage.call("one", "POST", f"/jobs/tick{number}", body)[0] == 201
    time.sleep(8)
    for number in range(6):
        assert stage.call("one", "DELETE", f"/jobs/tick{number}")[0] == 200
    time.sleep(1)
    rows = stage.rows(
        "SELECT job_id, planned_at, started_at - planned_at FROM executions WHERE job_id LIKE 'tick%'"
    )
    assert len({(job, planned) for job, planned, _ in rows}) == len(rows) >= 36
    assert max(late for _, _, late in rows) < 1_000


def test_feedback_reaches_its_job_from_any_node(stage: Stage) -> None:
    """The URL is that of a node; the job may live on the other one (SPEC section 5).

    A verdict that is faster than the answer of its request waits for that.
    """
    step = {"url": stage.target.url, "body": {"url": "${schedulingFeedbackUrl}"}}
    for number in range(4):
        body = definition(stage.target, timer=EXTERNAL, request=[step], **{"async": True})
        assert stage.call("one", "POST", f"/jobs/report{number}", body)[0] == 201
        assert stage.call("two", "POST", f"/jobs/report{number}/trigger", {})[0] == 200
    assert until(lambda: sum(job.startswith("report") for job in stage.target.feedback) == 4, 10)
    for number in range(4):
        url = stage.target.feedback[f"report{number}"]
        assert stage.call("one", "POST", url, {"status": "succeed"})[0] == 200
        assert until(partial(has_succeeded, stage, f"report{number}"), 10)


def has_succeeded(stage: Stage, job_id: str) -> bool:
    """Whether the job's latest execution has, as the second node says."""
    latest = stage.call("two", "GET", f"/jobs/{job_id}")[1]["data"]["latestExecution"]
    return bool(latest["state"] == "succeeded")


def test_a_far_firing_comes_by_its_reminder(stage: Stage) -> None:
    """Beyond 30 s nothing waits in the process: the scheduler service rings."""
    body = definition(stage.target, timer={"dueTime": "33s", "period": "0s"})
    assert stage.call("one", "POST", "/jobs/far", body)[0] == 201
    time.sleep(36)
    rows = stage.rows("SELECT started_at - planned_at FROM executions WHERE job_id = 'far'")
    assert [late < 1_000 for (late,) in rows] == [True]


def test_an_unknown_service_was_not_delivered(stage: Stage) -> None:
    """`service://` without a service of that name: the sidecar's word is no answer (SPEC section 9)."""
    body = definition(stage.target, timer=EXTERNAL, request=[{"url": "service://nobody/path"}])
    assert stage.call("one", "POST", "/jobs/nobody", body)[0] == 201
    assert stage.call("one", "POST", "/jobs/nobody/trigger", {})[0] == 200

    def ended() -> bool:
        found = stage.call("one", "GET", "/executions?jobId=nobody")[1]["data"]["items"]
        return bool(found) and found[0]["failureType"] == "connect"

    assert until(ended, 20)


def test_a_service_is_reached_by_its_app_id(stage: Stage) -> None:
    """Status and body pass through Dapr's service invocation (SPEC section 9)."""
    step = {"url": "service://scheduler/healthz", "method": "GET"}
    body = definition(stage.target, timer=EXTERNAL, request=[step])
    assert stage.call("one", "POST", "/jobs/through", body)[0] == 201
    assert stage.call("one", "POST", "/jobs/through/trigger", {})[0] == 200

    def ended() -> bool:
        found = stage.call("one", "GET", "/executions?jobId=through")[1]["data"]["items"]
        return bool(found) and found[0]["state"] == "succeeded"

    assert until(ended, 20)


def test_both_nodes_are_listed(stage: Stage) -> None:
    """`GET /nodes` tells of all, whichever is asked (SPEC section 14)."""
    items = stage.call("two", "GET", "/nodes")[1]["data"]["items"]
    assert [(one["nodeId"], one["state"]) for one in items] == [("one", "running"), ("two", "running")]
