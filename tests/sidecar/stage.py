"""A real cluster in a test's hand: its parts, a target, calls of the API, and what the history says."""

import contextlib
import json
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg

from scheduler_service.domain.records import StepEnded
from scheduler_service.persistence.history.stored_records import split
from scripts.local_cluster import LocalCluster
from scripts.local_programs import DemoProgram
from tests.http_program import Asked, HttpProgram, Said

ENDED = ("succeeded", "terminated", "cancelled", "skipped")
Attempt = tuple[str, int, int]
"""jobId, executeNumber, requestCounts: with jobs of one step it names a step."""


Answering = Callable[[str], tuple[int, bytes]]
"""The status and the body for a job; it may take its time."""


def answer_well(job_id: str) -> tuple[int, bytes]:
    """200, and nothing in it."""
    return 200, b"{}"


class Target(HttpProgram):
    """Knows when each attempt came (wall, ms), every time it was sent, and its headers. Answers 200, or as
    `answers` says for the path.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answering] = {}
        self.arrivals: dict[Attempt, list[float]] = {}
        self.feedback: dict[str, str] = {}
        self.heads: list[dict[str, str]] = []
        super().__init__(self._take)
        self.base, self.url = self.url, f"{self.url}/run"

    def _take(self, asked: Asked) -> Said:
        """A GET is the health probe of a daprd, or a check."""
        job_id = str(asked.headers["X-Scheduling-Job-Id"])
        if asked.method == "POST":
            number = int(asked.headers["X-Scheduling-Execute-Number"])
            attempt = (job_id, number, int(asked.headers["X-Scheduling-Request-Counts"]))
            self.heads.append({name.lower(): value for name, value in asked.headers.items()})
            self.arrivals.setdefault(attempt, []).append(time.time() * 1_000)
            if asked.body:
                self.feedback[job_id] = json.loads(asked.body)["url"]
        return Said(*self.answers.get(asked.path, answer_well)(job_id))


class Stage:
    """A cluster that runs."""

    def __init__(self, cluster: LocalCluster, target: Target) -> None:
        self.cluster = cluster
        self.target = target

    def start(self, *names: str) -> None:
        """Starts the shared parts and these nodes, and returns when all take work."""
        for part in self.cluster.shared():
            part.start()
            assert part.wait(), part.last_lines(20)
        for name in names:
            self.start_node(name)
        for name in names:
            self.await_ready(name)

    def start_node(self, name: str) -> None:
        """Starts one more node, and does not wait."""
        app, sidecar = self.cluster.add_node(name)
        app.start()
        sidecar.start()

    def await_ready(self, name: str, patience: float = 60) -> None:
        """Returns when the node takes work."""
        ready = until(lambda: self.call(name, "GET", "/health/ready")[0] == 200, patience)
        assert ready, self.cluster.apps[name].last_lines(20) + self.cluster.sidecars[name].last_lines(20)

    def call(
        self, name: str, method: str, path: str, body: object = None, *, seconds: float = 30
    ) -> tuple[int, Any]:
        """(status, JSON) of an API call; 0 where the node does not answer."""
        url = path if path.startswith("http") else f"http://127.0.0.1:{self.cluster.nodes[name].api}{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            url, method=method, data=data, headers={"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")
        except OSError:
            return 0, None

    def insist(self, method: str, path: str, body: object = None, *, name: str, patience: float = 40) -> int:
        """Calls until it is answered otherwise than 503 or not at all; the status."""
        status = 0

        def done() -> bool:
            nonlocal status
            status, _ = self.call(name, method, path, body)
            return status not in (0, 503)

        until(done, patience)
        return status

    def rows(self, query: str) -> list[Any]:
        """What the history says, wherever it lies."""
        if self.cluster.postgres is not None:
            with psycopg.connect(self.cluster.postgres.url, connect_timeout=20) as held:
                return held.execute(query).fetchall()
        place = self.cluster.folder / "data" / "history.db"
        with contextlib.closing(sqlite3.connect(place, timeout=20)) as db:
            return db.execute(query).fetchall()

    def recorded(self) -> dict[Attempt, float]:
        """When the step of each attempt was recorded first (wall, ms)."""
        found: dict[Attempt, float] = {}
        joined = "entries JOIN executions USING (uid, execute_number)"
        for job_id, number, payload in self.rows(f"SELECT job_id, execute_number, payload FROM {joined}"):
            for record in (stored.decode() for stored in split(payload)):
                if isinstance(record, StepEnded):
                    attempt = (job_id, number, record.request_counts)
                    found[attempt] = min(found.get(attempt, record.at), record.at)
        return found


def create(stage: Stage, definitions: list[dict[str, Any]]) -> None:
    """Posts definitions until each is there: on a busy machine some are told to come again."""
    left = definitions

    def done() -> bool:
        nonlocal left
        items = stage.call("one", "POST", "/jobs", left)[1]["data"]["items"]
        left = [one for one, item in zip(left, items, strict=True) if item["status"] == "refused"]
        return not left

    assert until(done, 30), f"{len(left)} jobs could not be created"


def until(condition: Callable[[], bool], patience: float) -> bool:
    """Whether `condition` came true within `patience` seconds."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.2)
    return condition()


def comes_up(part: DemoProgram) -> bool:
    """PostgreSQL refuses to start while a process of the server that was killed is still ending."""
    part.start()
    return part.wait()


Opening = Callable[..., contextlib.AbstractContextManager[Stage]]
"""`staged`, or `staged_on_postgres`."""


@contextlib.contextmanager
def staged(
    folder: Path, programs: Mapping[str, str], *names: str, environ: Mapping[str, str] | None = None
) -> Iterator[Stage]:
    """A cluster of these nodes, which share files, stopped at the end."""
    with _stopping(Stage(LocalCluster(folder=folder, programs=programs, environ=environ), Target())) as stage:
        stage.start(*names)
        yield stage


@contextlib.contextmanager
def staged_on_postgres(
    folder: Path, programs: Mapping[str, str], *names: str, environ: Mapping[str, str] | None = None
) -> Iterator[Stage]:
    """The same on one database, as `./scripts/cluster` starts it."""
    cluster = LocalCluster(folder=folder, programs=programs, environ=environ)
    cluster.add_database()
    with _stopping(Stage(cluster, Target())) as stage:
        stage.start(*names)
        yield stage


@contextlib.contextmanager
def _stopping(stage: Stage) -> Iterator[Stage]:
    try:
        yield stage
    finally:
        stage.cluster.stop()
        stage.target.close()


def definition(target: Target, **members: Any) -> dict[str, Any]:
    """One POST to the target."""
    base = {"jobName": "a job", "creator": "1", "creatorName": "one", "request": [{"url": target.url}]}
    return base | members
