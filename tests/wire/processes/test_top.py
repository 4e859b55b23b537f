"""`punctual top` against a real service."""

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.wire.processes.process import COMMAND, bare_environment, serve
from tests.wire.processes.terminal import Terminal

PATIENCE = 30


@pytest.fixture
def alone(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """The command line before a service of its own: a frame has few rows, and other tests' jobs fill them."""
    with serve(terminal.folder / "data") as process:
        url = process.wait_for_url()
        monkeypatch.setenv("PUNCTUAL_URL", url)
        yield Terminal(enter=terminal.enter, service=url, folder=terminal.folder)
        assert process.stop() == 0


def test_one_frame_off_a_terminal(alone: Terminal) -> None:
    """With what has run, and what has failed; without colour."""
    terminal = alone
    job, broken = terminal.make(), terminal.make("/nothing-here")
    terminal.done("jobs", "trigger", job, "--wait")
    terminal.enter("jobs", "trigger", broken, "--wait")
    ended = terminal.done("top", "--once")
    assert ended.err == ""
    assert "\x1b" not in ended.out
    for words in ("Punctual", "running ", "lateness p50", "nodes", "slowest of the last minutes", job[:20]):
        assert words in ended.out, words
    found = terminal.done("top", "-o", "json").data
    assert found["nodes"][0]["state"] == "running"
    assert job in {one["jobId"] for one in found["slowest"]}
    (failing,) = found["failing"]
    assert (failing["jobId"], failing["failed"], failing["error"]) == (broken, 1, "404")


def test_on_a_terminal_it_goes_on_until_ctrl_c(service: str) -> None:
    """Frame by frame; Ctrl-C is its end, with 0."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "top", "--interval", "0.5"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=bare_environment(PUNCTUAL_URL=service),
        start_new_session=True,
    )
    os.close(theirs)
    try:
        assert read_until(ours, rb"(?s)(Ctrl-C ends.*){3}")
        process.send_signal(signal.SIGINT)
        read_until(ours, rb"\x1b\[\?1049l")
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.communicate()
        os.close(ours)


def read_until(descriptor: int, pattern: bytes) -> bool:
    """Whether what comes has the pattern in time."""
    said, deadline = b"", time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if select.select([descriptor], [], [], 0.2)[0]:
            try:
                said += os.read(descriptor, 65_536)
            except OSError:
                break
        if re.search(pattern, said):
            return True
    return bool(re.search(pattern, said))
