"""A program that ends when the process that started it ends."""

import os
import signal
import subprocess
import sys

import pytest

from scheduler_service.demo import child_programs

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
