"""A data folder with damage on its disk, by the command line (SPEC section 16)."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_service.cli.main import run
from tests.wire.processes.process import COMMAND, PATIENCE, Process, bare_environment, serve

COUNT = 400
PAGE = 4_096


def define(number: int) -> dict[str, Any]:
    return {
        "jobId": f"job-{number:03}",
        "jobName": "x" * 100,
        "creator": "1",
        "creatorName": "one",
        "timer": {"period": "external"},
        "request": [{"url": "http://127.0.0.1:9/never", "body": {"text": "y" * 2_000}}],
    }


Db = Callable[[str, Path], tuple[int, str]]


@pytest.fixture
def db(capsys: pytest.CaptureFixture[str]) -> Db:
    """`punctual db COMMAND`: its exit code, and what it said."""

    def enter(command: str, data: Path) -> tuple[int, str]:
        code = run(["db", command, "--data", str(data)])
        return code, " ".join(capsys.readouterr().err.splitlines())

    return enter


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service's folder with many jobs; it is copied, and stays as it is."""
    data = tmp_path_factory.mktemp("created") / "data"
    with serve(data) as process:
        with httpx.Client(base_url=process.wait_for_url(), timeout=PATIENCE) as client:
            answer = client.post("/jobs", json=[define(number) for number in range(COUNT)])
            assert answer.is_success, answer.text[:500]
            items = client.get("/jobs", params={"limit": 500}).json()["data"]["items"]
            assert len(items) == COUNT
        assert process.stop() == 0
    return data


@pytest.fixture
def data(created: Path, tmp_path: Path) -> Path:
    """A copy of it, for one test."""
    return Path(shutil.copytree(created, tmp_path / "data"))


def destroy_definitions(place: Path) -> None:
    """Overwrites two pages that hold texts of definitions, as a broken disk does."""
    content = place.read_bytes()
    pages = [start for start in range(0, len(content), PAGE) if b"y" * 500 in content[start : start + PAGE]]
    with place.open("r+b") as file:
        for start in pages[len(pages) // 2 :][:2]:
            file.seek(start)
            file.write(b"\x5a" * PAGE)


def test_a_damaged_folder_is_found_and_repaired(data: Path, db: Db) -> None:
    """`db check` finds it, `db repair` saves the rest and keeps the damaged file, and the service starts."""
    assert db("check", data)[0] == 0
    assert db("repair", data) == (0, f"no file of {data} is damaged")
    destroy_definitions(data / "state.db")
    code, said = db("check", data)
    assert (code, "state.db: " in said, "punctual db repair" in said) == (1, True, True), said
    before = (data / "state.db").read_bytes()
    code, said = db("repair", data)
    assert code == 0, said
    assert "rows are missing in: definitions" in said
    (kept,) = data.glob("state.db.damaged-*")
    assert kept.name in said
    assert kept.read_bytes() == before
    assert (data / "state.db").stat().st_mode & 0o777 == 0o600
    with serve(data) as process:
        with httpx.Client(base_url=process.wait_for_url(), timeout=PATIENCE) as client:
            listed = client.get("/jobs", params={"limit": 500}).json()["data"]["items"]
            whole = [one["jobId"] for one in listed if client.get(f"/jobs/{one['jobId']}").status_code == 200]
        assert process.stop() == 0
    assert len(listed) == COUNT
    assert COUNT - 20 < len(whole) < COUNT


def test_a_job_that_cannot_be_read_is_named_and_created_again(data: Path, db: Db) -> None:
    """The service starts without it, `db repair` keeps its definition, and `apply` creates it from that."""
    with closing(sqlite3.connect(data / "state.db")) as connection, connection:
        connection.execute("UPDATE jobs SET turn_state = x'c1c1' WHERE job_id = 'job-007'")
    code, said = db("check", data)
    assert (code, "the state of job job-007 cannot be read" in said) == (1, True), said
    with serve(data) as process:
        with httpx.Client(base_url=process.wait_for_url(), timeout=PATIENCE) as client:
            assert client.post("/jobs/job-008/trigger", json={}).status_code == 200
            answer = client.post("/jobs/job-007/trigger", json={})
            assert (answer.status_code, "job job-007" in answer.text) == (503, True), answer.text
        assert process.stop() == 0
    code, said = db("repair", data)
    assert (code, "removed: job-007" in said) == (0, True), said
    (kept,) = data.glob("state.db.jobs-*.json")
    with serve(data) as process:
        url = process.wait_for_url()
        arguments = [*COMMAND, "jobs", "apply", "-f", str(kept)]
        with Process(arguments, cwd=data.parent, environ=bare_environment(PUNCTUAL_URL=url)) as applying:
            assert applying.wait() == 0, applying.err
        with httpx.Client(base_url=url, timeout=PATIENCE) as client:
            assert client.post("/jobs/job-007/trigger", json={}).status_code == 200
        assert process.stop() == 0


JOB = {
    "jobId": "orders",
    "jobName": "orders",
    "creator": "1",
    "creatorName": "one",
    "timer": {"period": "external"},
    "request": [{"url": "http://127.0.0.1:9/never"}],
}


def is_refused_without_its_state(data: Path) -> None:
    """Removes `state.db`; the next start ends with code 3 and the remedies."""
    for place in data.glob("state.db*"):
        place.unlink()
    with serve(data) as process:
        process.wait_for_line(r"has no state\.db.*--new-state")
        assert process.wait() == 3


def test_a_service_without_its_state_does_not_start(tmp_path: Path) -> None:
    """Exit code 3 and the remedies; with `--new-state` it begins without jobs, and the history stays."""
    data = tmp_path / "data"
    with serve(data) as process, httpx.Client(base_url=process.wait_for_url(), timeout=PATIENCE) as client:
        assert client.post("/jobs/orders", json=JOB).status_code == 201
        execution = client.post("/jobs/orders/trigger", json={}).json()["data"]["executionId"]
        assert client.get(f"/executions/{execution}").status_code == 200
        assert process.stop() == 0
    is_refused_without_its_state(data)
    assert not (data / "state.db").exists()
    with serve(data, "--new-state") as process:
        with httpx.Client(base_url=process.wait_for_url(), timeout=PATIENCE) as client:
            assert client.get("/jobs/orders").status_code == 404
            assert client.get(f"/executions/{execution}").status_code == 200
        assert process.stop() == 0
    with serve(data) as process:
        process.wait_for_url()
        assert process.stop() == 0


@pytest.mark.parametrize(
    "fate", ["moved", *(pytest.param(one, marks=pytest.mark.long) for one in ("emptied", "readdressed"))]
)
def test_a_service_without_its_history_does_not_start(tmp_path: Path, db: Db, fate: str) -> None:
    """Callers' keys lie there: it would serve everybody. `db migrate --new-history` goes on without them."""
    data, settings = tmp_path / "data", dict[str, str]()
    with serve(data) as process:
        with httpx.Client(base_url=process.wait_for_url(), timeout=PATIENCE) as client:
            assert client.post("/jobs/orders", json=JOB).status_code == 201
        assert process.stop() == 0
    if fate == "readdressed":
        settings["PUNCTUAL_DATABASE__URL"] = f"sqlite:///{tmp_path}/other.db"
    else:
        for place in data.glob("history.db*"):
            place.unlink()
        if fate == "emptied":
            (data / "history.db").touch()
        for command in ("check", "migrate"):
            code, said = db(command, data)
            assert (code, "db migrate --new-history" in said) == (3, True), said
        assert run(["doctor", "--data", str(data)]) == 1
    with serve(data, **settings) as process:
        process.wait_for_line(r"keys of callers.*--new-history")
        assert process.wait() == 3
    arguments = [*COMMAND, "db", "migrate", "--data", str(data), "--new-history"]
    with Process(arguments, cwd=tmp_path, environ=bare_environment(**settings)) as making:
        assert making.wait() == 0, making.err
    with serve(data, **settings) as process:
        with httpx.Client(base_url=process.wait_for_url(), timeout=PATIENCE) as client:
            assert client.get("/jobs/orders").status_code == 200
        assert process.stop() == 0


def test_jobs_that_have_not_run_yet_are_missed_as_well(tmp_path: Path) -> None:
    """The history has no execution of them, only the line of the audit: that is as much a loss."""
    data = tmp_path / "data"
    with serve(data) as process, httpx.Client(base_url=process.wait_for_url(), timeout=PATIENCE) as client:
        assert client.post("/jobs/orders", json=JOB).status_code == 201
        assert process.stop() == 0
    is_refused_without_its_state(data)


def test_no_setting_takes_the_guard_away_for_good(tmp_path: Path) -> None:
    """`--new-state` is said for one start: left in a file it would hide the next loss."""
    with serve(tmp_path / "data", PUNCTUAL_STORE__NEW_STATE="true") as process:
        process.wait_for_line(r"unknown setting store\.new_state")
        assert process.wait() == 2
