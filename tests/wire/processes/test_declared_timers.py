"""The source's timer list, declared by real processes, outlives the scheduler (SPEC section 11, seeds)."""

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_service.cli.main import run
from tests.http_program import Asked, HttpProgram, Said
from tests.wire.processes.process import serve
from tests.wire.processes.terminal import Ended, Terminal
from tests.wire.source_example import example

JOB = "20220125"
ANSWERS: dict[str, object] = {
    "/main/resultHandleSchool": {"student": [{"number": 1}]},
    "/main/provideCheckUrl": {"status": "succeed"},
}


def unhurried() -> dict[str, Any]:
    """The example, which fires only when asked to: no five-minute mark of the clock falls into a test."""
    return example() | {"timer": {"period": "0 0 3 29 2 ?"}}


class Instance:
    """A running instance of the services of the example."""

    def __init__(self, name: str, address: str, seen: list[str]) -> None:
        self.name = name
        self.address = address
        self.seen = seen

    def register(self, client: httpx.Client, *timers: dict[str, Any]) -> None:
        """The full registration, as it is repeated every 30 s; the worker's service declares the timers."""
        for service, declared in (("jobswork", {"timers": list(timers)}), ("jobsclient", {})):
            path = f"/services/{service}/instances/{self.name}"
            client.put(path, json={"address": self.address, **declared}).raise_for_status()


@contextmanager
def instance(name: str) -> Iterator[Instance]:
    """One on a port of its own."""
    seen: list[str] = []

    def answer(asked: Asked) -> Said:
        """What the example calls, word for word; every request is kept by its path."""
        path = asked.path.partition("?")[0]
        seen.append(path)
        found = [value for place, value in ANSWERS.items() if path.startswith(place)]
        return Said(body=json.dumps(found[0] if found else {}).encode())

    with HttpProgram(answer) as program:
        yield Instance(name, program.url, seen)


@contextmanager
def scheduler(data: Path, *further: str, **environ: str) -> Iterator[httpx.Client]:
    """A scheduler on `data`, killed at the end as a crash would."""
    with serve(data, *further, **environ) as process:
        with httpx.Client(base_url=process.wait_for_url(), trust_env=False, timeout=30) as client:
            yield client
        process.send(signal.SIGKILL)


@pytest.fixture
def enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """The command line; each command names its service."""
    monkeypatch.chdir(tmp_path)
    for name in ("PUNCTUAL_URL", "PUNCTUAL_KEY", "PUNCTUAL_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def take(*arguments: str) -> Ended:
        code = run(list(arguments))
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return Terminal(enter=take, service="", folder=tmp_path)


def check_timers(terminal: Terminal, client: httpx.Client) -> None:
    """One scan, triggered by hand, to its end."""
    terminal.done("jobs", "trigger", "check-timers", "--wait", "--url", str(client.base_url))


def job(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/jobs/{JOB}").json()["data"]
    return found


def test_declared_jobs_exist_when_their_registration_is_answered(tmp_path: Path) -> None:
    """All of them, whichever process has them, without check-timers (SPEC section 13)."""
    declared = [unhurried() | {"jobId": f"job-{number}"} for number in range(20)]
    with instance("a") as worker, scheduler(tmp_path / "data", "--workers", "2") as client:
        worker.register(client, *declared)
        statuses = [client.get(f"/jobs/job-{number}").status_code for number in range(20)]
        assert statuses == [200] * 20
        worker.register(client, *declared[1:])
        assert client.get("/jobs/job-0").json()["data"]["state"] == "paused"


def test_declared_jobs_come_back_after_everything_was_lost(enter: Terminal, tmp_path: Path) -> None:
    """The next registration and one scan, by two instances, over a wiped data folder (SPEC section 11)."""
    data, lives = tmp_path / "data", set()
    with instance("a") as first, instance("b") as second:
        for _ in range(2):
            with scheduler(data) as client:
                assert client.get(f"/jobs/{JOB}").status_code == 404
                for one in (first, second):
                    one.register(client, unhurried())
                check_timers(enter, client)
                made = job(client)
                assert made["definition"] == unhurried()
                assert made["state"] == "active"
                lives.add(made["uid"])
                enter.done("services", "drift", "jobswork", "--url", str(client.base_url))
                enter.done("jobs", "trigger", JOB, "--wait", "--url", str(client.base_url))
            shutil.rmtree(data)
    assert len(lives) == 2
    work = [path for path in (*first.seen, *second.seen) if path == "/main/resultHandleSchool"]
    assert len(work) == 2


def test_declared_jobs_outlive_a_crash_and_follow_edits(enter: Terminal, tmp_path: Path) -> None:
    """Killed, started again over what it had: the declaration stands, and its changes reach the job."""
    with instance("a") as worker:
        with scheduler(tmp_path / "data") as client:
            worker.register(client, example())
            check_timers(enter, client)
            uid = job(client)["uid"]
        with scheduler(tmp_path / "data") as client:
            assert job(client)["uid"] == uid
            client.delete(f"/jobs/{JOB}").raise_for_status()
            check_timers(enter, client)  # before any registration: what was declared is known still
            again = job(client)
            assert again["uid"] != uid
            worker.register(client, example() | {"timeoutSeconds": 20})
            check_timers(enter, client)
            assert (job(client)["revision"], job(client)["definition"]["timeoutSeconds"]) == (2, 20)
            worker.register(client)
            check_timers(enter, client)
            assert job(client)["state"] == "paused"


def test_calls_go_to_an_instance_that_takes_them(enter: Terminal, tmp_path: Path) -> None:
    """One drains, one has left, one is there; with nobody left it is `no_instance` (SPEC section 13)."""
    with (
        scheduler(tmp_path / "data", PUNCTUAL_SERVICES__WAIT_SECONDS="1") as client,
        instance("a") as draining,
        instance("b") as gone,
        instance("c") as there,
    ):
        for one in (draining, gone, there):
            one.register(client, unhurried())
        check_timers(enter, client)
        path = "/services/jobswork/instances"
        client.post(f"{path}/a/heartbeat", json={"draining": True}).raise_for_status()
        client.delete(f"{path}/b").raise_for_status()
        enter.done("jobs", "trigger", JOB, "--wait", "--url", str(client.base_url))
        work = [one.seen.count("/main/resultHandleSchool") for one in (draining, gone, there)]
        assert work == [0, 0, 1]
        client.delete(f"{path}/c").raise_for_status()
        alone = {**enter.definition(), "request": [{"url": "service://jobswork/run"}]}
        client.post(f"/jobs/{alone['jobId']}", json=alone).raise_for_status()
        ended = enter.enter(
            "jobs", "trigger", alone["jobId"], "--wait", "-o", "json", "--url", str(client.base_url)
        )
        assert (ended.code, ended.data["error"]) == (5, "no_instance")
