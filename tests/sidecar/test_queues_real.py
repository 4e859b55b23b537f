"""Workers at two real nodes, over PostgreSQL: nodes and workers are killed, each part is completed once."""

import random
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.sidecar.stage import Stage, staged_on_postgres, until

NODES = ("one", "two")
STEP = {
    "url": "queue://work",
    "leaseSeconds": 5,
    "renewSeconds": 1,
    "maxUnexpectedRetries": 1_000,
    "unexpectedRetryDelaySeconds": 0,
}
DEAD_SECONDS = 12.0
"""Longer than a node's name is taken by the dead one."""


class Crowd:
    """Threads that claim and complete at any node; `accepted` has the leases of each part that were."""

    def __init__(self, stage: Stage, workers: int) -> None:
        self.stage = stage
        self.over = threading.Event()
        self.accepted: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.deaths = 0
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(workers)]

    def start(self) -> None:
        """All begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Returns when all have ended."""
        self.over.set()
        for thread in self._threads:
            thread.join(60)

    def _work(self, number: int) -> None:
        chance = random.Random(number)
        while not self.over.is_set():
            asked = {"instanceId": f"w{number}", "waitSeconds": 1}
            status, answer = self.stage.call(chance.choice(NODES), "POST", "/queues/work/claim", asked)
            if status != 200:
                time.sleep(0.5)
                continue
            for item in answer["data"]["items"]:
                if chance.random() < 0.05:
                    self.deaths += 1  # it comes back and knows nothing of it
                else:
                    self._complete(chance, item)

    def _complete(self, chance: random.Random, item: dict[str, Any]) -> None:
        """At any node, again where it is not answered."""
        path = f"/leases/{item['lease']}/complete"
        for _ in range(100):
            said = {"status": "succeed", "data": item["shardIndex"]}
            status, _ = self.stage.call(chance.choice(NODES), "POST", path, said)
            if status in (200, 409):
                if status == 200:
                    self.accepted[item["executionId"], item["shardIndex"]].add(item["lease"])
                return
            time.sleep(0.2)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("workers", "jobs", "parts"), [(6, 15, 4), pytest.param(20, 500, 10, marks=pytest.mark.long)]
)
def test_each_part_is_completed_once(
    tmp_path: Path, programs: dict[str, str], workers: int, jobs: int, parts: int
) -> None:
    """A node dies without a word while parts wait and are held, and comes back."""
    with staged_on_postgres(tmp_path, programs, *NODES) as stage:
        crowd = Crowd(stage, workers)
        publish(stage, jobs, parts)
        crowd.start()
        try:
            stage.cluster.apps["two"].kill()
            time.sleep(DEAD_SECONDS)
            stage.cluster.apps["two"].start()
            stage.await_ready("two")
            assert until(lambda: states(stage) == {"succeeded": jobs}, 400), states(stage)
        finally:
            crowd.stop()
        assert len(crowd.accepted) == jobs * parts
        assert {len(leases) for leases in crowd.accepted.values()} == {1}
        assert until(lambda: stage.rows("SELECT count(*) FROM queue_parts") == [(0,)], 20)
        assert stage.call("two", "GET", "/queues")[1]["data"]["items"] == []


def publish(stage: Stage, jobs: int, parts: int) -> None:
    """One execution of each job waits in the queue."""
    base = {"jobName": "queued", "creator": "1", "creatorName": "one", "timer": {"period": "external"}}
    step = STEP | {"parallelism": parts}
    posted = [
        base | {"jobId": f"queued{number}", "qos": 1, "timeoutSeconds": 900, "request": [step]}
        for number in range(jobs)
    ]
    assert stage.call("one", "POST", "/jobs", posted)[0] == 200
    for number in range(jobs):
        assert stage.insist("POST", f"/jobs/queued{number}/trigger", {}, name="one") == 200


def states(stage: Stage) -> dict[str, int]:
    """How many executions are in which state."""
    rows = stage.rows("SELECT state FROM executions WHERE job_id LIKE 'queued%'")
    return dict(Counter(state for (state,) in rows))
