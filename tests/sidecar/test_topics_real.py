"""Notifications to a topic, by a real pub/sub component to a real subscriber (SPEC sections 7, 9)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.demo.child_programs import free_ports
from scripts.local_cluster import LocalCluster, NodePorts
from tests.http_program import Asked, HttpProgram, Said
from tests.sidecar.stage import Stage, Target, create, definition, until

JOBS = 200

COMPONENT = """apiVersion: dapr.io/v1alpha1
kind: Component
metadata:
  name: events
spec:
  type: pubsub.redis
  version: v1
  metadata:
    - name: redisHost
      value: 127.0.0.1:PORT
    - name: redisPassword
      value: ""
"""


class Subscriber(HttpProgram):
    """An application that subscribes to one topic, and keeps the events that its daprd brings."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        super().__init__(self._take)

    def _take(self, asked: Asked) -> Said:
        if asked.method == "POST":
            self.events.append(json.loads(asked.body))
        route = {"pubsubname": "events", "topic": "jobs/ended", "route": "/take"}
        body = json.dumps([route] if asked.path == "/dapr/subscribe" else {}).encode()
        return Said(body=body, headers={"Content-Type": "application/json"})


@contextmanager
def staged_with_topics(
    folder: Path, programs: dict[str, str], *names: str
) -> Iterator[tuple[Stage, Subscriber]]:
    """These nodes, and a subscriber with its own daprd, over the same pub/sub component."""
    cluster = LocalCluster(folder=folder, programs=programs)
    text = COMPONENT.replace("PORT", str(cluster.ports.redis))
    (folder / "resources" / "pubsub.yaml").write_text(text, encoding="utf-8")
    stage, subscriber = Stage(cluster, Target()), Subscriber()
    try:
        stage.start(*names)
        free = free_ports(4)
        ports = NodePorts(free[0], subscriber.port, *free[1:])
        sidecar = cluster.sidecars["reader"] = cluster.sidecar("daprd-reader", "reader", ports)
        sidecar.start()
        assert sidecar.wait(), sidecar.last_lines(20)
        yield stage, subscriber
    finally:
        cluster.stop()
        stage.target.close()
        subscriber.close()


def test_a_notification_comes_as_an_event(tmp_path: Path, programs: dict[str, str]) -> None:
    """Once for each execution, with the `webhook-id` as its id; a topic nobody has fails its delivery."""
    with staged_with_topics(tmp_path, programs, "one") as (stage, subscriber):
        body = {"job": "${schedulingJobId}", "event": "succeeded"}
        told = {"url": "topic://events/jobs/ended", "stateEquals": "finalSucceed", "body": body}
        lost = {"url": "topic://nowhere/x", "stateEquals": "finalSucceed"}
        job = definition(stage.target, timer={"period": "external"}, notification=[told, lost])
        assert stage.call("one", "POST", "/jobs/told", job)[0] == 201
        for number in (1, 2):
            assert stage.call("one", "POST", "/jobs/told/trigger", {})[0] == 200
            assert until(lambda count=number: len(subscriber.events) >= count, 30)  # type: ignore[misc]
        for event in subscriber.events:
            assert event["data"] == {"job": "told", "event": "succeeded"}
            assert (event["source"], event["type"]) == ("punctual", "punctual.notification")
        assert len({event["id"] for event in subscriber.events}) == 2

        def states() -> list[tuple[str, str]]:
            return stage.rows("SELECT url, state FROM deliveries ORDER BY url, state")

        wanted = [("topic://events/jobs/ended", "delivered")] * 2 + [("topic://nowhere/x", "pending")] * 2
        assert until(lambda: states() == wanted, 10), states()


@pytest.mark.long
@pytest.mark.timeout(200)
def test_every_notification_comes_though_a_node_dies(tmp_path: Path, programs: dict[str, str]) -> None:
    """Of jobs of qos 1, at least once each, under one id, while its node and daprd are killed."""
    with staged_with_topics(tmp_path, programs, "one", "two") as (stage, subscriber):
        told = {"url": "topic://events/jobs/ended", "stateEquals": "finalSucceed"}
        told["body"] = {"job": "${schedulingJobId}"}  # type: ignore[assignment]
        jobs = [
            definition(
                stage.target,
                jobId=f"told{number}",
                qos=1,
                timer={"dueTime": f"{4 + number * 4 // JOBS}s", "period": "0s"},
                notification=[told],
            )
            for number in range(JOBS)
        ]
        create(stage, jobs)
        assert until(lambda: len(subscriber.events) >= JOBS // 4, 30)
        stage.cluster.apps["two"].kill()
        stage.cluster.sidecars["two"].kill()

        def ids() -> dict[str, set[str]]:
            found: dict[str, set[str]] = {}
            for event in list(subscriber.events):
                found.setdefault(event["data"]["job"], set()).add(event["id"])
            return found

        assert until(lambda: len(ids()) == JOBS, 90), JOBS - len(ids())
        assert {len(one) for one in ids().values()} == {1}
        kinds = "SELECT state, count(*) FROM deliveries GROUP BY state"
        assert until(lambda: stage.rows(kinds) == [("delivered", JOBS)], 60), stage.rows(kinds)
