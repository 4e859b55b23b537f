"""Schedules in files at a real service: killed, asked for, piped, of several tenants (SPEC section 16)."""

import contextlib
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.wire.processes.process import COMMAND, bare_environment, serve
from tests.wire.processes.terminal import Terminal

KEY_OF_ALL = "the key of an admin"
OFFICE = {"free": ["2026-01-05"]}


def own_label(terminal: Terminal) -> dict[str, str]:
    return {"of": terminal.folder.name}


def schedule(terminal: Terminal, count: int, **members: Any) -> list[dict[str, Any]]:
    """Definitions with a label of this test's own."""
    return [
        {**terminal.definition(labels=own_label(terminal)), "jobId": f"{terminal.folder.name}-s{number}"}
        | members
        for number in range(count)
    ]


@contextlib.contextmanager
def started(
    terminal: Terminal, *arguments: str, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=terminal.folder,
        env=bare_environment(PUNCTUAL_URL=terminal.service),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_a_command_that_is_killed_amid_its_changes_is_repeated(terminal: Terminal) -> None:
    """Then each job was changed once: none is half changed, and none a second time (faults)."""
    jobs = schedule(terminal, 40)
    file = terminal.write("all.json", jobs)
    terminal.done("jobs", "apply", "-f", file)
    terminal.write("all.json", [job | {"jobName": "new"} for job in jobs])
    with started(terminal, "jobs", "apply", "-f", file) as process:
        while terminal.done("jobs", "get", jobs[0]["jobId"], "-o", "json").data["revision"] == 1:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    terminal.done("jobs", "apply", "-f", file)
    assert terminal.done("jobs", "diff", "-f", file).out == "no difference\n"
    shown = terminal.done("jobs", "list", "--label", f"of:{terminal.folder.name}", "-o", "json").data["items"]
    assert [(one["jobName"], one["revision"]) for one in shown] == [("new", 2)] * 40


def answer(terminal: Terminal, text: str, *arguments: str) -> tuple[int, str]:
    """How a command ends that a person answers at a terminal, and what it says."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, text.encode())
        with started(terminal, *arguments, stdin=theirs) as process:
            _, said = process.communicate(timeout=60)
            return process.returncode, said
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_person_is_asked_before_jobs_are_destroyed(terminal: Terminal) -> None:
    """At a terminal; without a yes nothing is done (16)."""
    kept, gone = schedule(terminal, 2)
    terminal.done("jobs", "apply", "-f", terminal.write("all.json", [kept, gone]))
    file, label = terminal.write("all.json", [kept | {"jobName": "new"}]), f"of:{terminal.folder.name}"
    prune = ("jobs", "apply", "-f", file, "--prune", "--label", label)
    code, said = answer(terminal, "n\n", *prune)
    assert (code, "destroy 1 job? [y/N]" in said) == (1, True)
    assert terminal.enter("jobs", "diff", "-f", file).code == 1
    code, said = answer(terminal, "y\n", *prune)
    assert (code, f"is to be destroyed: {gone['jobId']}\n" in said) == (0, True)
    assert terminal.enter("jobs", "get", gone["jobId"]).code == 1
    assert terminal.done("jobs", "get", kept["jobId"], "-o", "json").data["jobName"] == "new"


def test_what_is_exported_is_piped_into_apply(terminal: Terminal) -> None:
    """As YAML and as JSON, from one process to another (16)."""
    terminal.done("jobs", "apply", "-f", terminal.write("all.json", schedule(terminal, 3)))
    for form in ("yaml", "json"):
        exported = terminal.done("jobs", "export", "--label", f"of:{terminal.folder.name}", "-o", form).out
        done = subprocess.run(
            [*COMMAND, "jobs", "diff", "-f", "-"],
            env=bare_environment(PUNCTUAL_URL=terminal.service),
            input=exported,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "no difference\n"), done.stderr


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The url of a service, and keys: an editor's of each of two tenants, and one for a team's jobs."""
    with serve(tmp_path_factory.mktemp("shared") / "data", PUNCTUAL_SERVER__KEY=KEY_OF_ALL) as process:
        found = {"url": process.wait_for_url()}
        headers = {"Authorization": f"Bearer {KEY_OF_ALL}"}
        with httpx.Client(base_url=found["url"], headers=headers, trust_env=False) as admin:
            for name, scope in (("a", {}), ("b", {}), ("team", {"labels": ["team:x"]})):
                body = {"name": name, "role": "editor", "tenant": "b" if name == "b" else "a", **scope}
                found[name] = admin.post("/keys", json=body).raise_for_status().json()["data"]["key"]
        yield found


def test_with_the_key_of_a_tenant_its_jobs_are_moved_alone(
    terminal: Terminal, shared: dict[str, str]
) -> None:
    """Another's of the same ids and labels are neither seen nor destroyed; labels see less (14)."""

    def at(tenant: str) -> tuple[str, ...]:
        return ("--url", shared["url"], "--key", shared[tenant])

    timer = {"period": "0 0 9 * * ?", "calendar": "office"}
    job = terminal.definition(jobId="same", labels={"team": "x"}, timer=timer)
    other = terminal.definition(jobId="other", labels={"team": "y"})
    office = {"kind": "Calendar", "name": "office", **OFFICE}
    file = terminal.write("all.json", [job, other, office])
    terminal.done("jobs", "apply", "-f", file, *at("a"))
    assert terminal.done("jobs", "export", *at("b")).out == ""
    terminal.done("jobs", "apply", "-f", file, *at("b"))
    alone = terminal.write("other.json", [other, office])
    terminal.done("jobs", "apply", "-f", alone, "--prune", "--label", "team:x", "--yes", *at("b"))
    assert terminal.enter("jobs", "get", "same", *at("b")).code == 1
    assert terminal.done("jobs", "diff", "-f", file, *at("a")).out == "no difference\n"
    narrow = terminal.done("jobs", "export", "-o", "json", *at("team"))
    assert [one["jobId"] for one in narrow.data] == ["same"]
    assert "this key sees no calendars" in narrow.err
    said = terminal.enter("jobs", "apply", "-f", file, *at("team"))
    assert (said.code, "this key is for jobs with team:x alone" in said.err) == (1, True)
