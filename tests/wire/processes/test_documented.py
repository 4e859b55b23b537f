"""What README and the pages show is run as it stands, on a free port."""

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scheduler_service.cli.main import commands
from tests.ports import free_port
from tests.unit.docs.pages import ROOT, fenced, fences, read
from tests.wire.docs.executor import enter_here
from tests.wire.processes.process import COMMAND, Process, bare_environment, serve
from tests.wire.processes.terminal import Terminal

EXECUTION, DELIVERY, OPERATION, HELD = "nightly#1", "DELIVERY_ID", "OPERATION_ID", "resize#1"
OWN_PROCESS = (
    "punctual serve", "punctual demo", "punctual db", "punctual worker", "punctual keys", "punctual secrets",
)  # fmt: skip


def as_prepared(command: str) -> str:
    """The command with the environment that this test runs in, where the scripts have not prepared one."""
    if any((ROOT / ".venv").glob(".prepared-*")):
        return command
    _, *arguments = shlex.split(command, comments=True)
    return shlex.join([*COMMAND, *(arguments or ["demo"])])


def run_shell(block: str, *, cwd: Path, url: str) -> str:
    """What a block of commands prints; it ends at the first one that fails."""
    done = subprocess.run(
        ["sh", "-euc", block.replace("curl ", "curl -sS --fail-with-body ")],
        cwd=cwd,
        env=bare_environment(PUNCTUAL_URL=url),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
    return done.stdout


def read_values(text: str) -> Iterator[dict[str, object]]:
    """The JSON values that several curl commands print one behind the other."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        yield value
        at += len(text[at:]) - len(text[at:].lstrip())


@pytest.fixture(scope="module", autouse=True)
def _curl() -> None:
    """The commands need it."""
    if shutil.which("curl") is None:
        pytest.skip("curl is missing")


@pytest.mark.long
def test_the_demo_of_readme_runs() -> None:
    """`./scripts/run` without arguments; the port comes from the environment, nothing else is changed."""
    start, test = fences(read("README.md"), "sh")[0].splitlines()
    assert test.split()[0] == "./scripts/test"
    environ = bare_environment(PUNCTUAL_SERVER__PORT="0")
    with Process(["sh", "-c", f"exec {as_prepared(start)}"], cwd=ROOT, environ=environ) as process:
        process.wait_for_line("Punctual answers at http://127.0.0.1:")
        process.wait_for_line(r"demo-chain +#1 +succeeded")
        assert process.stop() == 0


def test_the_first_job_of_readme_runs(tmp_path: Path) -> None:
    """The service as README starts it, and every curl command behind it, in order."""
    _, start, *blocks = fences(read("README.md"), "sh")
    port = str(free_port())
    own = start.replace("8000", port).replace("--data data", f"--data {shlex.quote(str(tmp_path / 'data'))}")
    assert own != start
    with Process(["sh", "-c", f"exec {as_prepared(own.strip())}"], cwd=ROOT) as process:
        url = process.wait_for_url()
        assert url == f"http://127.0.0.1:{port}"
        printed = [run_shell(block.replace("8000", port), cwd=tmp_path, url=url) for block in blocks]
        answers = list(itertools.chain.from_iterable(map(read_values, printed)))
        assert process.stop() == 0
    assert [answer["resp_code"] for answer in answers] == [200] * 5
    created, executions, coming, triggered, destroyed = [answer["data"] for answer in answers]
    assert isinstance(created, dict)
    assert created["state"] == "active"
    assert isinstance(executions, dict)
    assert isinstance(executions["items"], list)
    assert isinstance(coming, dict)
    assert len(coming["firings"]) == 3
    assert isinstance(triggered, dict)
    assert triggered["state"] in ("processing", "skipped")
    assert destroyed == {"jobId": "hello", "state": "destroyed"}


def test_the_examples_of_the_api_run(service: str, tmp_path: Path) -> None:
    """Every curl command of docs/api.md, in order, is answered as a success."""
    blocks = fences(read("docs/api.md"), "sh")
    text = "\n".join(blocks).replace("http://127.0.0.1:8000", service)
    answers = list(read_values(run_shell(text, cwd=tmp_path, url=service)))
    assert len(answers) == len(re.findall(r"^curl", text, re.MULTILINE))
    assert all(answer["resp_code"] == 200 for answer in answers)


def write_files(folder: Path, service: str) -> None:
    """The files of which docs/cli.md speaks."""
    definition = json.loads(fences(read("docs/cli.md"), "json")[0].replace("http://127.0.0.1:8000", service))
    (folder / "nightly.json").write_text(json.dumps(definition), encoding="utf-8")
    declared = fences(read("docs/cli.md"), "yaml")[0].replace("http://127.0.0.1:8000", service)
    (folder / "billing.yaml").write_text(declared, encoding="utf-8")
    dates = next(one.body for one in fenced(read("docs/cli.md")) if one.name == "closed.txt")
    (folder / "closed.txt").write_text(dates, encoding="utf-8")
    (folder / "office.yaml").write_text("week: [1, 2, 3, 4, 5]\n", encoding="utf-8")
    holiday = "BEGIN:VEVENT\nDTSTART;VALUE=DATE:20261225\nEND:VEVENT\n"
    (folder / "holidays.ics").write_text(f"BEGIN:VCALENDAR\n{holiday}END:VCALENDAR\n", encoding="utf-8")
    jobs = [definition, definition | {"jobId": "weekly"}]
    (folder / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")


def test_the_examples_of_the_command_line_run(terminal: Terminal) -> None:
    """Every command of docs/cli.md, in order, with the files that it shows; none ends but with 0."""
    write_files(terminal.folder, terminal.service)
    known: dict[str, str] = {}
    for line in "".join(fences(read("docs/cli.md"), "sh")).splitlines():
        name, _, command = line.partition("=$(")
        if command:
            printed = run_shell(command.removesuffix(")"), cwd=terminal.folder, url=terminal.service)
            known[f"${name}"] = printed.strip()
            continue
        arguments = [fill_in(word, known) for word in shlex.split(line)]
        assert arguments[0] == "punctual"
        ended = terminal.done(*arguments[1:])
        # What only waits for events prints nothing where none comes.
        assert ended.out + ended.err or arguments[1] == "events", line


def test_the_examples_of_services_run(terminal: Terminal) -> None:
    """Every command of docs/services.md, in order: a service registers, lives, leaves, and has its job."""
    write_files(terminal.folder, terminal.service)
    curls, commands = [], []
    for block in fences(read("docs/services.md"), "sh"):
        (commands if block.startswith("punctual") else curls).append(block)
    text = "\n".join(curls).replace("http://127.0.0.1:8000", terminal.service)
    answers = list(read_values(run_shell(text, cwd=terminal.folder, url=terminal.service)))
    assert [answer["resp_code"] for answer in answers] == [200] * len(re.findall("^curl", text, re.MULTILINE))
    for line in "".join(commands).splitlines():
        ended = terminal.done(*shlex.split(line)[1:])
        assert ended.out + ended.err, line


def test_the_examples_of_the_guide_run(service: str, tmp_path: Path) -> None:
    """Every command of docs/guide.md."""
    printed = run_shell("\n".join(fences(read("docs/guide.md"), "sh")), cwd=tmp_path, url=service)
    assert len(printed.splitlines()) == 4


def examples() -> list[str]:
    """The command behind each `Example:` of the commands' help."""
    found: list[str] = []

    def walk(command: object) -> None:
        for inner in getattr(command, "commands", {}).values():
            walk(inner)
        found.extend(re.findall(r"Example: (.*)", getattr(command, "help", None) or ""))

    walk(commands())
    return found


def fill_in(word: str, known: dict[str, str]) -> str:
    """The word with the variables of the shell that it names."""
    for name, value in known.items():
        word = word.replace(name, value)
    return word


def pending_delivery(terminal: Terminal) -> str:
    """The id of a notification that nobody takes; it waits for its next try."""
    told = [{"url": f"http://127.0.0.1:{free_port()}/", "guarantee": "outbox", "stateEquals": "finalSucceed"}]
    job = terminal.make(notification=told)
    terminal.done("jobs", "trigger", job, "--wait")
    items = terminal.done("deliveries", "list", "--job", job, "-o", "json").data["items"]
    return str(items[0]["deliveryId"])


def held_part(terminal: Terminal) -> str:
    """The execution whose part an instance has claimed from the queue `images`."""
    job = terminal.make(timer={"period": "external"}, request=[{"url": "queue://images"}])
    started = terminal.done("jobs", "trigger", job, "-o", "json").data
    claim = {"instanceId": "w1", "waitSeconds": 10}
    httpx.post(f"{terminal.service}/queues/images/claim", json=claim, trust_env=False).raise_for_status()
    return f"{job}#{started['executeNumber']}"


@pytest.mark.parametrize("example", [one for one in examples() if not one.startswith(OWN_PROCESS)])
def test_the_examples_of_the_help_run(terminal: Terminal, example: str) -> None:
    """Each with the files and jobs that it speaks of; none is wrong, refused or unreachable."""
    write_files(terminal.folder, terminal.service)
    nightly = json.loads((terminal.folder / "nightly.json").read_text(encoding="utf-8"))
    kept = terminal.write("kept.json", nightly | {"keepResult": True})
    terminal.done("jobs", "apply", "-f", kept if "executions result" in example else "nightly.json")
    if example.startswith("punctual services"):
        terminal.done("services", "apply", "billing", "-f", "billing.yaml", "--wait")
    if example.startswith("punctual calendars"):
        terminal.done("calendars", "put", "office", "-f", "office.yaml")
    arguments = shlex.split(example)[1:]
    if "free" in arguments:
        arguments[arguments.index(HELD)] = held_part(terminal)
    if EXECUTION in arguments:
        extra = ["--delay", "1h"] if "cancel" in arguments else ["--wait"]
        started = terminal.done("jobs", "trigger", "nightly", *extra, "-o", "json").data
        arguments[arguments.index(EXECUTION)] = f"nightly#{started['executeNumber']}"
    if DELIVERY in arguments:
        arguments[arguments.index(DELIVERY)] = pending_delivery(terminal)
    if OPERATION in arguments:
        ended = terminal.done("jobs", "bulk", "pause", "nightly", "-o", "json").data
        arguments[arguments.index(OPERATION)] = ended["operationId"]
    terminal.done(*arguments)
    terminal.enter("jobs", "delete", "nightly")


def test_the_examples_of_keys_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a data folder of their own: after the first key everybody would need one of a service."""
    monkeypatch.delenv("PUNCTUAL_URL", raising=False)
    made, own = "", [one for one in examples() if one.startswith("punctual keys")]
    in_order = ("create", "list", "rotate", "revoke")
    assert {example.split()[2] for example in own} == set(in_order)
    for example in sorted(own, key=lambda one: in_order.index(one.split()[2])):
        command = re.sub(r"[0-9a-f]{16}", made, example)
        code, printed = enter_here(f"{command} --data {tmp_path / 'data'}")
        assert code == 0, printed
        made = made or printed.partition("keyId")[2].split()[0]
    assert len(made) == 16


def test_the_examples_of_secrets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a service that has a key for them."""
    own = [one for one in examples() if one.startswith("punctual secrets")]
    assert [example.split()[2] for example in own] == ["set", "list", "delete"]
    (tmp_path / "token.txt").write_text("a token of the shop", encoding="utf-8")
    with serve(tmp_path / "data", PUNCTUAL_SECRETS_KEY=b64encode(os.urandom(32)).decode()) as process:
        url = process.wait_for_url()
        run_shell(own[0], cwd=tmp_path, url=url)  # it reads a file as the shell gives it
        monkeypatch.setenv("PUNCTUAL_URL", url)
        for example in own[1:]:
            code, printed = enter_here(example)
            assert code == 0, printed


@pytest.mark.long
def test_the_examples_that_start_a_service_run(tmp_path: Path) -> None:
    """`punctual serve` and `punctual db` as their help shows them; README's demo is `punctual demo`."""
    own = {example.split()[1]: example for example in examples() if example.startswith(OWN_PROCESS)}
    environ = bare_environment(PUNCTUAL_SERVER__DRAIN_SECONDS="0")
    command = own["serve"].replace("8000", str(free_port()))
    with Process(["sh", "-c", f"exec {command}"], cwd=tmp_path, environ=environ) as process:
        process.wait_for_line('"listening"')
        assert process.stop() == 0
    for example in (one for one in examples() if one.startswith("punctual db")):
        assert run_shell(example, cwd=tmp_path, url="") == ""
