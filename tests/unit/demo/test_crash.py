"""The target of the demo's crash: what it got, done once under each key."""

import asyncio
import os
import signal
import subprocess
import sys

import httpx
import pytest

from scheduler_service.demo import child_programs
from scheduler_service.demo.crash import Witness, describe_requests
from scheduler_service.demo.running import describe_demo, describe_retry
from scheduler_service.domain.records import AttemptEnded


def caller(witness: Witness) -> httpx.AsyncClient:
    """Calls it without a socket."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(witness), base_url="http://target")


async def test_a_key_is_done_once() -> None:
    """Repeated, it is answered from memory; headers that are made anew make no difference."""
    witness = Witness(held="pack")
    witness.release()
    async with caller(witness) as client:
        for step in ("pick", "pack", "pack", "ship"):
            headers = {"idempotency-key": step, "traceparent": f"00-{len(witness.seen)}"}
            answer = await client.post(f"/parcel/{step}", headers=headers, json={"article": "tea"})
            assert answer.json()["step"] == step
    assert witness.done == ["pick", "pack", "ship"]
    assert describe_requests(witness) == [
        "pick: came 1 time",
        "pack: came 2 times, with the same Idempotency-Key and equal byte for byte: "
        "answered the second time from memory",
        "ship: came 1 time",
        "nothing was repeated: 3 steps, 3 keys, each done once, in order",
    ]


async def test_what_is_not_as_promised_is_said() -> None:
    """Another key, or another body, for the same step."""
    witness = Witness(held="pack")
    witness.release()
    async with caller(witness) as client:
        for number, step in enumerate(("pick", "pack", "pack", "ship")):
            await client.post(f"/parcel/{step}", headers={"idempotency-key": str(number)})
    lines = describe_requests(witness)
    assert "NOT EQUAL" in lines[1]
    assert lines[-1].startswith("this is not as promised")


async def test_one_answer_is_held_until_it_is_released() -> None:
    """The first one for that step; who waits for its coming, gets on."""
    witness = Witness(held="pack")
    async with caller(witness) as client:
        sending = asyncio.create_task(client.post("/parcel/pack", headers={"idempotency-key": "k"}))
        await witness.wait_for("pack", 1)
        assert not sending.done()
        assert witness.done == []
        witness.release()
        assert (await sending).status_code == 200
    assert witness.count("pack") == 1


def test_the_demo_says_what_runs_and_where_to_look() -> None:
    """The addresses are whole; why a job fails is explained; the crash is announced where it is shown."""
    lines = describe_demo("http://127.0.0.1:1", shows_crash=True)
    assert lines[0].startswith("Punctual answers at http://127.0.0.1:1 ")
    for path in ("/console/", "/docs", "/executions?jobId=demo-flaky", "/stats"):
        assert any(line.split()[0] == f"http://127.0.0.1:1{path}" for line in lines)
    assert any("on purpose" in line for line in lines)
    assert any("kill -9" in line for line in lines)
    assert not any("kill -9" in line for line in describe_demo("http://127.0.0.1:1", shows_crash=False))


def test_a_retry_is_explained() -> None:
    """With its error and its wait."""
    record = AttemptEnded(execute_number=2, request_counts=4, at=0, error="503", retry_in=1500)
    assert describe_retry("demo-flaky", record) == (
        "1970-01-01T00:00:00.000Z  demo-flaky   #2    failed with 503: its retry policy has it wait 1500 ms, "
        "then the whole chain is tried again"
    )


STARTER = """
import subprocess, sys
from scheduler_service.demo import child_programs
with subprocess.Popen([*child_programs.tied_command(15), sys.executable, "-c", sys.argv[1]]) as started:
    started.wait()
"""
# Says so when it is told to end, in what both processes have open.
TOLD = """
import signal, time
def end(*_):
    print("told", flush=True)
    raise SystemExit
signal.signal(signal.SIGTERM, end)
print("runs", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ties processes together")
def test_the_end_of_the_starter_is_told() -> None:
    """By the signal that was asked for, also where the starter could do nothing more."""
    command = [sys.executable, "-c", STARTER, TOLD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "runs\n"
        starter.send_signal(signal.SIGKILL)
        assert starter.stdout.read() == "told\n"


def test_the_program_has_the_number_of_its_command() -> None:
    """What is sent to it reaches the program itself."""
    command = [
        *child_programs.tied_command(signal.SIGKILL),
        sys.executable,
        "-c",
        "import os; print(os.getpid())",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert int(started.stdout.read()) == started.pid


def test_who_has_lost_its_starter_does_not_begin() -> None:
    """A starter that ended before the tie was made sends no signal any more."""
    command = list(child_programs.tied_command(signal.SIGKILL))
    command[command.index(str(os.getpid()))] = "1"
    ended = subprocess.run(
        [*command, "echo", "began"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "")
