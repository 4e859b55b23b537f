"""A cluster whose daprd want tokens: of their API, and of the node (SPEC section 15)."""

import time
import urllib.error
import urllib.request
from pathlib import Path

from scheduler_service.demo.child_programs import free_ports
from scripts.local_cluster import NodePorts
from tests.sidecar.stage import Stage, definition, staged, until

EXTERNAL = {"period": "external"}
OF_API, OF_APP = "token-of-the-api-0123", "token-of-the-app-4567"
TOKENS = {"DAPR_API_TOKEN": OF_API, "APP_API_TOKEN": OF_APP, "PUNCTUAL_LOG__LEVEL": "debug"}


def test_a_cluster_whose_sidecars_want_tokens(tmp_path: Path, programs: dict[str, str]) -> None:
    """Turns, states, reminders and services all need them; nobody else learns them."""
    with staged(tmp_path, programs, "one", "two", environ=TOKENS) as stage:
        assert refusals(stage) == [401, 401, 403]
        start_orders(stage)
        steps = [{"url": "service://orders/run"}, {"url": stage.target.url}]
        body = definition(stage.target, timer=EXTERNAL, request=steps)
        for number in range(4):
            assert stage.call("one", "POST", f"/jobs/token{number}", body)[0] == 201
            assert stage.call("two", "POST", f"/jobs/token{number}/trigger", {})[0] == 200
        far = definition(stage.target, timer={"dueTime": "33s", "period": "0s"})
        assert stage.call("one", "POST", "/jobs/far", far)[0] == 201
        assert until(lambda: len(stage.target.heads) >= 8, 20)
        assert until(lambda: any(head["x-scheduling-job-id"] == "far" for head in stage.target.heads), 45)
        time.sleep(1)
        states = stage.rows("SELECT state, count(*) FROM executions GROUP BY state")
        assert states == [("succeeded", 5)]
        assert not any(OF_API in head.values() for head in stage.target.heads)
        shown = stage.call("one", "GET", "/settings")[1]["data"]
        assert shown["dapr.api_token"] == {"value": "***", "source": "environment DAPR_API_TOKEN"}
        for app in stage.cluster.apps.values():
            text = app.log.read_text()
            assert OF_API not in text
            assert OF_APP not in text


def test_a_node_without_the_token_says_so(tmp_path: Path, programs: dict[str, str]) -> None:
    """It ends at once, and names the setting."""
    with staged(tmp_path, programs, environ=TOKENS | {"PUNCTUAL_DAPR__API_TOKEN": "another"}) as stage:
        stage.start_node("one")
        assert until(lambda: not stage.cluster.apps["one"].is_running, 40)
        text = stage.cluster.apps["one"].log.read_text()
        assert "dapr.api_token (or DAPR_API_TOKEN) has to be the DAPR_API_TOKEN of daprd" in text
        assert OF_API not in text


def start_orders(stage: Stage) -> None:
    """The target as an application of its own, behind its own daprd, which has the same tokens."""
    free = free_ports(4)
    sidecar = stage.cluster.sidecar(
        "daprd-orders", "orders", NodePorts(free[0], stage.target.port, *free[1:])
    )
    stage.cluster.sidecars["orders"] = sidecar
    sidecar.start()
    assert sidecar.wait(), sidecar.last_lines(20)


def refusals(stage: Stage) -> list[int]:
    """What daprd and the node answer to whoever has no token, or a wrong one."""
    ports = stage.cluster.nodes["one"]
    url = f"http://127.0.0.1:{ports.http}/v1.0/metadata"
    turn = f"http://127.0.0.1:{ports.app}/actors/job_scheduler/job/method/take"
    return [status(url, {}), status(url, {"dapr-api-token": OF_APP}), status(turn, {}, "PUT")]


def status(url: str, headers: dict[str, str], method: str = "GET") -> int:
    request = urllib.request.Request(
        url, method=method, headers=headers, data=b"" if method == "PUT" else None
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
