"""A node that is killed under the real programs, as a person sees it: log line, event, alert, figure."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.http_program import Asked, HttpProgram, Said
from tests.sidecar.stage import Stage, staged, until

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
SOON = 20.0
"""Ten seconds of silence, and what it takes to look and to tell."""


class Hook(HttpProgram):
    """Takes the alerts."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        super().__init__(self._take)

    def _take(self, asked: Asked) -> Said:
        self.messages.append(json.loads(asked.body))
        return Said()


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as opened:
        yield opened


def follow(stage: Stage, name: str) -> list[dict[str, Any]]:
    """The events of nodes, as they come at this one."""
    found: list[dict[str, Any]] = []
    url = f"http://127.0.0.1:{stage.cluster.nodes[name].api}/events?event=nodeLost&event=nodeJoined"
    answer = urllib.request.urlopen(url, timeout=60)

    def read() -> None:
        try:
            for line in answer:
                if line.startswith(b"data: "):
                    found.append(json.loads(line[6:]))
        except OSError:
            pass  # the node stops at the end of the test

    threading.Thread(target=read, daemon=True).start()
    return found


def offline(stage: Stage, name: str) -> float | None:
    """How many nodes are offline, as the metrics of one say."""
    url = f"http://127.0.0.1:{stage.cluster.nodes[name].api}/metrics"
    with urllib.request.urlopen(url, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return next((float(one.split()[-1]) for one in lines if is_offline(one)), None)


def is_offline(line: str) -> bool:
    return line.startswith("punctual_nodes{") and 'state="offline"' in line


def test_a_killed_node_is_seen_and_its_return_as_well(
    tmp_path: Path, programs: dict[str, str], hook: Hook
) -> None:
    """SPEC section 14: a line and an event `node_lost`, an alert, and the alert that it is back."""
    alert = {"name": "ops", "on": ["nodeLost"], "url": hook.url, "minIntervalSeconds": 0}
    environ = {"PUNCTUAL_ALERTS": json.dumps([alert]), "PUNCTUAL_LOG__FORMAT": "json"}
    with staged(tmp_path, programs, "one", "two", environ=environ) as stage:
        events = follow(stage, "one")
        stage.cluster.apps["two"].kill()
        stage.cluster.sidecars["two"].kill()
        assert until(lambda: "nodeLost" in {one["kind"] for one in events}, SOON), events
        (lost,) = (one for one in events if one["kind"] == "nodeLost")
        assert (lost["node"], lost["subject"]) == ("one", "two")
        assert until(lambda: len(hook.messages) == 1, SOON), hook.messages
        assert (hook.messages[0]["of"], hook.messages[0]["subject"]) == ("nodeLost", "two")
        said = [
            line for line in stage.cluster.apps["one"].last_lines(400).splitlines() if "node_lost" in line
        ]
        assert [json.loads(line)["node"] for line in said] == ["two"], said
        assert until(lambda: offline(stage, "one") == 1, SOON)

        stage.start_node("two")
        stage.await_ready("two")
        assert until(lambda: "nodeJoined" in {one["kind"] for one in events}, SOON), events
        assert until(lambda: len(hook.messages) == 2, SOON), hook.messages
        assert (hook.messages[1]["of"], hook.messages[1]["subject"]) == ("nodeLost", "two")
