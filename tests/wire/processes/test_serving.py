"""`punctual serve`, `punctual demo` and `punctual db` as processes (SPEC sections 14, 15 and 16)."""

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ports import free_port
from tests.wire.processes.process import (
    COMMAND,
    PATIENCE,
    bare_environment,
    run,
    serve,
)

KEY = "0123456789abcdef"
LOOK = 0.05
"""Seconds between two looks at another process."""
EARLIER = "2090-01-01T00:00:00.000Z"
"""When a job fires, in UTC, until the default time zone is another one."""


def punctual(*arguments: str, cwd: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    """A command that ends by itself."""
    return run(*arguments, cwd=cwd, environ=bare_environment(**environ))


def test_what_is_in_the_way_of_a_start_is_named(tmp_path: Path) -> None:
    """A port that is taken, a folder that another service uses: 3; a wrong setting, as an env_file: 2."""
    with serve(tmp_path / "data") as process, socket.create_server(("127.0.0.1", 0)) as taken:
        process.wait_for_url()
        port = str(taken.getsockname()[1])
        done = punctual("serve", "--port", port, "--data", ":memory:", cwd=tmp_path)
        assert done.returncode == 3
        assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
        for arguments in (("serve", "--port", "0", "--data", "data"), ("db", "migrate", "--data", "data")):
            done = punctual(*arguments, cwd=tmp_path)
            assert done.returncode == 3
            assert "is in use by process" in done.stderr
        assert punctual("db", "check", "--data", "data", cwd=tmp_path).returncode == 0
    done = punctual("serve", "--port", "0", cwd=tmp_path, PUNCTUAL_ENV_FILE="none.sh")
    assert done.returncode == 2
    assert "env_file none.sh cannot be read" in done.stderr


def test_a_folder_is_checked_and_migrated(tmp_path: Path) -> None:
    """Exit code 1 where something is missing; nothing is changed by a check (16)."""
    missing = punctual("db", "check", "--data", "data", cwd=tmp_path)
    assert missing.returncode == 1
    assert "state.db is missing" in missing.stderr
    assert not (tmp_path / "data").exists()
    assert punctual("db", "migrate", "--data", "data", cwd=tmp_path).returncode == 0
    assert punctual("db", "check", "--data", "data", cwd=tmp_path).stderr == "data is up to date\n"
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert punctual("db", "migrate", "--data", "file", cwd=tmp_path).returncode == 3


def test_a_signal_ends_it_well(tmp_path: Path) -> None:
    """Exit code 0, everything closed; started again it knows its jobs (14). Egress is logged first (9)."""
    definition = {"jobName": "A", "creator": "1", "creatorName": "one", "timer": {"period": "external"}}
    with serve(tmp_path / "data") as process:
        url = process.wait_for_url()
        step = {"method": "GET", "url": f"{url}/health/live"}
        created = httpx.post(f"{url}/jobs/a", json=definition | {"request": [step]})
        assert created.status_code == 201
        assert '"egress_set"' in process.err[0]
        assert "loopback is allowed" in process.err[0]
        process.send(signal.SIGINT)
        assert process.wait() == 0
        assert '"stopped"' in process.err[-1]
        assert process.out == []
    with serve(tmp_path / "data") as process:
        found = httpx.get(f"{process.wait_for_url()}/jobs/a").json()["data"]
        assert found["uid"] == created.json()["data"]["uid"]


def test_variables_of_an_orchestrator_are_named_in_a_line(tmp_path: Path) -> None:
    """By a service and a command, which go on (16). So is a file of secrets that everybody can read (14)."""
    links = {"PUNCTUAL_PORT": "tcp://10.0.0.1:8000", "PUNCTUAL_SERVICE_HOST": "10.0.0.1"}
    config = tmp_path / "punctual.toml"
    config.write_text("[server]\nkey = 'a-key-of-this-service'\n", encoding="utf-8")
    config.chmod(0o644)
    with serve(tmp_path / "data", PUNCTUAL_CONFIG=str(config), **links) as process:
        process.wait_for_url()
        [line] = [one for one in process.err if '"variables_ignored"' in one]
        assert json.loads(line)["variables"] == sorted(links)
        (line,) = [one for one in process.err if '"files_exposed"' in one]
        assert json.loads(line)["files"] == [str(config)]
        assert process.stop() == 0
    done = punctual("db", "check", "--data", "data", cwd=tmp_path, **links)
    assert done.returncode == 0
    assert done.stderr.count("PUNCTUAL_PORT, PUNCTUAL_SERVICE_HOST") == 1


@pytest.mark.long
def test_closed_descriptors_are_no_place_for_a_database(tmp_path: Path) -> None:
    """0 to 2 are /dev/null then, in worker processes too: no line of the log lands in a file (14)."""
    port, data = str(free_port()), tmp_path / "data"
    command = shlex.join([*COMMAND, "serve", "--port", port, "--data", str(data), "--workers", "2"])
    shell = ["sh", "-c", f"exec {command} <&- >&- 2>&-"]
    with subprocess.Popen(shell, cwd=tmp_path, env=bare_environment()) as process:
        try:
            [node] = answered(process, f"http://127.0.0.1:{port}/nodes")["data"]["items"]
            pids = [one["pid"] for one in node["processes"]]
            named = {str(Path(f"/proc/{pid}/fd/{number}").readlink()) for pid in pids for number in range(3)}
            assert named == {"/dev/null"}
        finally:
            process.terminate()
        assert process.wait(60) == 0
    assert not [one.name for one in data.iterdir() if b'"timestamp"' in one.read_bytes()]


def answered(process: "subprocess.Popen[bytes]", url: str) -> Any:
    """What a process answers that cannot say when it listens."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(url, timeout=20).json()
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"it ended with {process.wait(0.05)}")
    raise AssertionError(f"{url} does not answer")


def test_commands_work_without_their_streams(tmp_path: Path) -> None:
    """What was to be said there is lost (16)."""
    closed = "<&- >&- 2>&-"
    command = shlex.join([*COMMAND, "db", "migrate", "--data", "data"])
    for line in (f"exec {command} {closed}", f"exec {shlex.join(COMMAND)} settings {closed}"):
        assert subprocess.call(["sh", "-c", line], cwd=tmp_path, env=bare_environment()) == 0
    assert punctual("db", "check", "--data", "data", cwd=tmp_path).returncode == 0


def test_with_a_key_each_request_needs_it(tmp_path: Path) -> None:
    """Also beyond loopback; health does not; the command line sends it (14, 16)."""
    with (
        serve(tmp_path / "data", "--host", "0.0.0.0", PUNCTUAL_SERVER__KEY=KEY) as process,
        httpx.Client(trust_env=False) as client,  # the address is not loopback: no proxy is to be asked
    ):
        url = process.wait_for_url()
        assert client.get(f"{url}/health/ready").status_code == 200
        assert client.get(f"{url}/jobs").status_code == 401
        refused = punctual("jobs", "list", "--url", url, cwd=tmp_path)
        assert refused.returncode == 1
        assert refused.stderr.startswith("punctual: a key is needed")
        assert punctual("jobs", "list", "--url", url, "--key", KEY, cwd=tmp_path).returncode == 0
        shown = client.get(f"{url}/settings", headers={"Authorization": f"Bearer {KEY}"})
        assert shown.json()["data"]["server.key"] == {"value": "***", "source": "environment"}
        assert KEY not in "".join(process.err) + shown.text


def test_a_configuration_file_without_egress_refuses_loopback(tmp_path: Path) -> None:
    """What was configured is all that counts (9)."""
    settings = "[limits]\nready = 10\n[env.default]\nHOST = 'http://127.0.0.1'\n"
    (tmp_path / "p.toml").write_text(settings, encoding="utf-8")
    with serve(tmp_path / "data", "--config", "p.toml") as process:
        url = process.wait_for_url()
        definition = {"jobName": "A", "creator": "1", "creatorName": "one", "timer": {"period": "external"}}
        step = {"method": "GET", "url": f"{url}/health/live"}
        refused = httpx.post(f"{url}/jobs/a", json=definition | {"request": [step]})
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, "egress")
        # Behind a variable the host is judged when the request is made.
        hidden = {"method": "GET", "url": f"${{HOST}}:{url.rpartition(':')[2]}/health/live"}
        assert httpx.post(f"{url}/jobs/a", json=definition | {"request": [hidden]}).status_code == 201
        done = punctual("jobs", "trigger", "a", "--wait", "--url", url, cwd=tmp_path)
        assert done.returncode == 5
        assert "ended terminated egress" in done.stderr


def test_the_processes_of_a_service_are_shown(tmp_path: Path) -> None:
    """Each with its shard and its own start. None ends by a hangup; one that is killed is replaced (14)."""
    began = time.time()
    with serve(tmp_path / "data", "--workers", "2") as process:
        url = process.wait_for_url()
        [node] = httpx.get(f"{url}/nodes", timeout=20).json()["data"]["items"]
        shards = [(one["shard"], one["state"]) for one in node["processes"]]
        assert shards == [(0, "running"), (1, "running")]
        pids = [one["pid"] for one in node["processes"]]
        assert len(set(pids)) == 2
        for one in (node, *node["processes"]):
            started = datetime.fromisoformat(one["startedAt"]).timestamp()
            assert began - 1 < started < time.time()
        assert node["jobsHeld"] == sum(one["jobsHeld"] for one in node["processes"])
        # A terminal that closes: to all processes, and a line says that settings are read at the start
        for pid in pids:
            os.kill(pid, signal.SIGHUP)
        assert "read at its start" in process.wait_for_line('"hangup_ignored"').string
        [node] = httpx.get(f"{url}/nodes", timeout=20).json()["data"]["items"]
        assert [(one["pid"], one["state"]) for one in node["processes"]] == [(pid, "running") for pid in pids]
        os.kill(pids[1], signal.SIGKILL)
        assert another_pid(url, pids[1]) != pids[1]
        assert process.stop() == 0
        assert sum('"hangup_ignored"' in line for line in process.err) == 1


def another_pid(url: str, dead: int) -> int:
    """The id of the worker process that was started for a dead one."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        [node] = httpx.get(f"{url}/nodes", timeout=20).json()["data"]["items"]
        worker = node["processes"][1]
        assert worker["state"] in ("running", "missing")
        if worker["pid"] not in (None, dead):
            return int(worker["pid"])
        time.sleep(LOOK)
    raise AssertionError("no other process was started")


@pytest.mark.long
def test_what_follows_from_settings_is_computed_anew_in_every_process(tmp_path: Path) -> None:
    """Next firings after another time zone, and which jobs cannot run after a variable is gone (2, 15)."""
    env = {"PUNCTUAL_ENV": '{"default": {"SHOP": "shop.test"}}'}
    posted = {
        "jobName": "j",
        "request": [{"url": "http://${SHOP}/run"}],
        "timer": {"period": "0 0 0 1 1 ? 2090"},
    }
    found = []
    for environ in (env, {"PUNCTUAL_DEFAULTS__TIMEZONE": "Asia/Shanghai"}):
        with serve(tmp_path / "data", "--workers", "2", **environ) as process:
            with httpx.Client(base_url=process.wait_for_url(), trust_env=False, timeout=30) as client:
                if not found:
                    for number in range(6):
                        client.post(f"/jobs/j{number}", json=posted).raise_for_status()
                else:
                    process.wait_for_line('"job_blocked"', many=6)
                deadline = time.monotonic() + PATIENCE
                items = client.get("/jobs").json()["data"]["items"]
                while found and any(one["nextFireTime"] == EARLIER for one in items):
                    assert time.monotonic() < deadline, items
                    time.sleep(LOOK)
                    items = client.get("/jobs").json()["data"]["items"]
                read = [client.get(f"/jobs/{one['jobId']}").json()["data"] for one in items]
            process.stop()
        assert [one["cannotRun"] for one in items] == [one["cannotRun"] for one in read]
        found.append({(one["nextFireTime"], bool(one["cannotRun"])) for one in read})
    assert found == [{(EARLIER, False)}, {("2089-12-31T16:00:00.000Z", True)}]
