"""A data folder from which files are gone, by the command line (SPEC section 16)."""

from pathlib import Path

import httpx

from tests.wire.processes.process import PATIENCE, serve

JOB = {
    "jobId": "orders",
    "jobName": "orders",
    "creator": "1",
    "creatorName": "one",
    "timer": {"period": "external"},
    "request": [{"url": "http://127.0.0.1:9/never"}],
}


def test_a_service_without_its_state_does_not_start(tmp_path: Path) -> None:
    """Exit code 3 and the remedies; with `--new-state` it begins without jobs, and the history stays."""
    data = tmp_path / "data"
    with serve(data) as process, httpx.Client(base_url=process.wait_for_url(), timeout=PATIENCE) as client:
        assert client.post("/jobs/orders", json=JOB).status_code == 201
        execution = client.post("/jobs/orders/trigger", json={}).json()["data"]["executionId"]
        assert client.get(f"/executions/{execution}").status_code == 200
        assert process.stop() == 0
    for place in data.glob("state.db*"):
        place.unlink()
    with serve(data) as process:
        process.wait_for_line(r"has no state\.db.*--new-state")
        assert process.wait() == 3
    assert not (data / "state.db").exists()
    with serve(data, "--new-state") as process:
        with httpx.Client(base_url=process.wait_for_url(), timeout=PATIENCE) as client:
            assert client.get("/jobs/orders").status_code == 404
            assert client.get(f"/executions/{execution}").status_code == 200
        assert process.stop() == 0
    with serve(data) as process:
        process.wait_for_url()
        assert process.stop() == 0


def test_no_setting_takes_the_guard_away_for_good(tmp_path: Path) -> None:
    """`--new-state` is said for one start: left in a file it would hide the next loss."""
    with serve(tmp_path / "data", PUNCTUAL_STORE__NEW_STATE="true") as process:
        process.wait_for_line(r"unknown setting store\.new_state")
        assert process.wait() == 2
