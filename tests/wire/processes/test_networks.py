"""A service that listens on all addresses hands out feedback URLs that others reach (SPEC section 5).

Service and target run in network namespaces of their own, as two containers do, joined by a cable.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.docs.pages import ROOT
from tests.wire.processes.process import COMMAND, Process, bare_environment

pytestmark = [pytest.mark.elsewhere, pytest.mark.long, pytest.mark.timeout(120)]
KEY = "0123456789abcdef"
SERVICE, TARGET, NETWORK = "10.77.0.2", "10.77.0.3", "10.77.0.0/24"
# Answers 202, then reports to the address that it was given, and prints what came back.
REPORTS = """
import json, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.request import ProxyHandler, Request, build_opener

def report(url):
    body = json.dumps({"status": "succeed"}).encode()
    request = Request(url, body, {"Content-Type": "application/json"})
    try:
        told = build_opener(ProxyHandler({})).open(request, timeout=10).status
    except OSError as error:
        told = error
    print("reported", url.partition("/jobs/")[0], told, flush=True)

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        url = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["tell"]
        self.send_response(202)
        self.end_headers()
        threading.Thread(target=report, args=(url,)).start()

server = HTTPServer(("0.0.0.0", 9000), Handler)
print("serving", flush=True)
server.serve_forever()
"""


class Namespace(msgspec.Struct, frozen=True):
    """A machine of its own, as far as its network goes."""

    name: str

    def start(self, *command: str, cwd: Path, **environ: str) -> Process:
        """A process in it."""
        arguments = ["ip", "netns", "exec", self.name, *command]
        return Process(arguments, cwd=cwd, environ=bare_environment(PYTHONPATH=str(ROOT), **environ))

    def call(self, method: str, path: str, body: Any) -> dict[str, Any]:
        """An answer of the service that runs in it."""
        command = ["curl", "-sS", "-X", method, f"http://127.0.0.1:8000{path}", "--json", json.dumps(body)]
        header = ["-H", f"Authorization: Bearer {KEY}"]
        done = subprocess.run(
            ["ip", "netns", "exec", self.name, *command, *header],
            env=bare_environment(),
            capture_output=True,
            timeout=30,
            check=True,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)


@pytest.fixture
def namespaces() -> Iterator[tuple[Namespace, Namespace]]:
    """Two of them, without an interface but loopback."""
    if shutil.which("ip") is None or shutil.which("curl") is None:
        pytest.skip("ip or curl is missing (Debian: apt-get install iproute2 curl)")
    names = [f"punctual-{os.getpid()}-{end}" for end in "st"]
    with ExitStack() as stack:
        for name in names:
            try:
                ip("netns", "add", name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"this user may make no network namespace: {error.stderr.decode().strip()}")
            stack.callback(ip, "netns", "delete", name)
            ip("-n", name, "link", "set", "lo", "up")
        yield Namespace(names[0]), Namespace(names[1])


def join(service: Namespace, target: Namespace) -> None:
    """A cable between them, an address at each end."""
    ends = f"netns {service.name} type veth peer name eth7 netns {target.name}"
    ip(*f"link add eth7 {ends}".split())
    for one, address in ((service, SERVICE), (target, TARGET)):
        ip("-n", one.name, "address", "add", f"{address}/24", "dev", "eth7")
        ip("-n", one.name, "link", "set", "eth7", "up")


def run_job(
    service: Namespace, target: Namespace, host: str, folder: Path
) -> tuple[Process, dict[str, Any], str]:
    """The processes as they ended, the answer to the creation, and the line with what the target reported."""
    job = {
        "jobName": "reported",
        "creator": "1",
        "creatorName": "one",
        "async": True,
        "timeoutSeconds": 20,
        "request": [{"url": f"http://{host}:9000/", "body": {"tell": "${schedulingFeedbackUrl}"}}],
    }
    command = [*COMMAND, "serve", "--host", "0.0.0.0", "--port", "8000", "--data", str(folder / "data")]
    environ = {"PUNCTUAL_SERVER__KEY": KEY, "PUNCTUAL_EGRESS__ALLOW": json.dumps([NETWORK, "127.0.0.1"])}
    with (
        target.start(sys.executable, "-c", REPORTS, cwd=folder) as reporting,
        service.start(*command, cwd=folder, **environ) as process,
    ):
        reporting.wait_for_line("serving")
        process.wait_for_url()
        answer = service.call("POST", "/jobs/reported", job)
        line = reporting.wait_for_line("reported").string
        process.stop()
    return process, answer, line


@pytest.mark.parametrize("has_route", [True, False])
def test_a_target_on_another_machine_reports(
    namespaces: tuple[Namespace, Namespace], tmp_path: Path, has_route: bool
) -> None:
    """As the image is started, in a network with a way out and in one without."""
    service, target = namespaces
    join(service, target)
    if has_route:
        ip("-n", service.name, "route", "add", "default", "via", "10.77.0.1")
    process, answer, line = run_job(service, target, TARGET, tmp_path)
    assert line == f"reported http://{SERVICE}:8000 200"
    assert answer["warnings"] == []
    assert any('"address_assumed"' in one and f'"http://{SERVICE}:8000"' in one for one in process.err)


def test_a_machine_without_a_network_says_so(namespaces: tuple[Namespace, Namespace], tmp_path: Path) -> None:
    """At the start, and when a job is created that hands out an address which only this machine reaches."""
    service, _ = namespaces
    process, answer, line = run_job(service, service, "127.0.0.1", tmp_path)
    assert line == "reported http://127.0.0.1:8000 200"
    assert [one["code"] for one in answer["warnings"]] == ["feedback_unreachable"]
    assert any('"address_not_found"' in one for one in process.err)
