"""`./scripts/cluster` whole, on the real programs: from the first line to the last process."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scheduler_service.demo.child_programs import free_ports
from tests.checkout import environ_of, make_checkout
from tests.sidecar.stage import Target, definition, until

NODES = ("one", "two")
SHARED = ("redis", "postgres", "placement", "scheduler")
PARTS = (*SHARED, *NODES, *(f"daprd-{name}" for name in NODES))
UP = re.compile(r"(?m)^(\S+) +up, process (\d+)$")
PATIENCE = 120
pytestmark = pytest.mark.timeout(400)


class Script:
    """The script in a session of its own, as a terminal has it, and what it printed."""

    def __init__(self, scripts: Path, data: Path, port: int) -> None:
        command = [str(scripts / "cluster"), "--data", str(data), "--port", str(port)]
        self._process = subprocess.Popen(
            command, cwd=data.parent, env=environ_of(), start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._lines.append(line)

    @property
    def said(self) -> str:
        """All that it printed so far."""
        return "".join(self._lines)

    @property
    def parts(self) -> dict[str, int]:
        """name → process of each part that it told of."""
        return {name: int(process) for name, process in UP.findall(self.said)}

    def await_start(self) -> None:
        """Returns when it has told that all is there."""
        assert until(lambda: "Ctrl-C stops all of it" in self.said or self.has_ended, PATIENCE), self.said
        assert not self.has_ended, self.said

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def interrupt(self) -> None:
        """Ctrl-C: the signal goes to all that a terminal knows of."""
        os.killpg(self._process.pid, signal.SIGINT)

    def send(self, number: int) -> None:
        """A signal for the script alone, as `kill` sends it."""
        os.kill(self._process.pid, number)

    def await_end(self) -> int:
        """Its exit code."""
        code = self._process.wait(PATIENCE)
        self._reader.join(10)
        return code

    def kill(self) -> None:
        """Whatever a failed test left."""
        sessions = {self._process.pid, *self.parts.values()}
        for process in left_behind(sessions):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        self._reader.join(10)


def left_behind(sessions: set[int]) -> list[int]:
    """Living processes of these sessions: each part leads one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = path.read_text().rsplit(")", 1)[1].split()[:4]
            if int(session) in sessions and state != "Z":
                found.append(int(path.parent.name))
    return found


@contextlib.contextmanager
def started(scripts: Path, data: Path) -> Iterator[tuple[Script, dict[str, str]]]:
    """The script, when it has started everything, and the addresses of its nodes."""
    script = Script(scripts, data, free_pair())
    try:
        script.await_start()
        addresses = dict(re.findall(r"(?m)^(one|two) +(http://\S+)$", script.said))
        assert set(addresses) == set(NODES), script.said
        yield script, addresses
    finally:
        script.kill()


def free_pair() -> int:
    """A port that is free, as the one ten above it is."""
    while True:
        (port,) = free_ports(1)
        with contextlib.suppress(OSError), socket.socket() as other:
            other.bind(("127.0.0.1", port + 10))
            return port


def test_it_starts_serves_and_leaves_nothing_behind(tmp_path: Path, programs: dict[str, str]) -> None:
    """A line per part, two nodes that know each other's jobs, Ctrl-C; at the next start all is there."""
    scripts = make_checkout(tmp_path / "checkout")
    with contextlib.closing(Target()) as target:
        with started(scripts, tmp_path / "data") as (script, addresses):
            processes = script.parts
            assert set(processes) == set(PARTS), script.said
            soon = definition(target, timer={"dueTime": "3s", "period": "0s"})
            post(addresses["one"], "/jobs/soon", soon, httpx.codes.CREATED)
            later = definition(target, timer={"period": "external"})
            post(addresses["two"], "/jobs/later", later, httpx.codes.CREATED)
            for address in addresses.values():
                assert read(address, "/health/ready").status_code == httpx.codes.OK
                listed = read(address, "/jobs").json()["data"]["items"]
                assert {one["jobId"] for one in listed} == {"soon", "later"}
            assert until(lambda: ("soon", 1, 1) in target.arrivals, 20)
            script.interrupt()
            assert script.await_end() == 0, script.said
            assert left_behind(set(processes.values())) == []
            assert script.said.endswith("stopping ... (Ctrl-C once more: at once)\n"), script.said
        with started(scripts, tmp_path / "data") as (script, addresses):
            answer = httpx.post(
                f"{addresses['one']}/jobs/later/trigger", json={}, trust_env=False, timeout=30
            )
            assert answer.status_code == httpx.codes.OK, answer.text
            assert until(lambda: ("later", 1, 1) in target.arrivals, 20)
            processes = script.parts
            script.interrupt()
            time.sleep(0.5)
            script.interrupt()
            assert script.await_end() == 0, script.said
            assert until(lambda: left_behind(set(processes.values())) == [], 10)
        assert [len(moments) for moments in target.arrivals.values()] == [1, 1]


def post(address: str, path: str, body: object, wanted: int) -> None:
    answer = httpx.post(f"{address}{path}", json=body, trust_env=False, timeout=30)
    assert answer.status_code == wanted, answer.text


def read(address: str, path: str) -> httpx.Response:
    return httpx.get(f"{address}{path}", trust_env=False, timeout=30)


def test_it_ends_when_it_is_told_and_when_it_is_killed(tmp_path: Path, programs: dict[str, str]) -> None:
    """`kill -9` leaves no program behind, and nothing that the next start minds; SIGTERM ends all."""
    scripts = make_checkout(tmp_path / "checkout")
    with started(scripts, tmp_path / "data") as (script, _):
        processes = set(script.parts.values())
        script.send(signal.SIGKILL)
        script.await_end()
        assert until(lambda: left_behind(processes) == [], 20), left_behind(processes)
    with started(scripts, tmp_path / "data") as (script, _):
        processes = set(script.parts.values())
        script.send(signal.SIGTERM)
        assert script.await_end() == 0, script.said
        assert left_behind(processes) == []
