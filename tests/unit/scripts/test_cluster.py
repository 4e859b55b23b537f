"""`./scripts/cluster` where it cannot start: what is said, and that nothing is left behind."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from scheduler_service.persistence.sqlite.folder_lock import FolderLock
from tests.checkout import environ_of, make_checkout

TOOLS = ("cat", "cksum", "dirname", "env", "sh", "sleep")
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ties processes together")
# Takes the port that it is given; the notes are made whole under another name.
SERVER = """
import os, pathlib, signal, socket, sys, time
program = pathlib.Path(sys.argv[0])
options = dict(zip(sys.argv, sys.argv[1:]))
notes = program.parent.parent / "notes"
def end(*_):
    (notes / f".{program.name}.ended").touch()
    sys.exit()
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, end)
if program.name != "scheduler":
    server = socket.create_server(("127.0.0.1", int(options.get("--port") or options["-p"])))
(notes / f".{program.name}").write_text(str(os.getpid()))
(notes / f".{program.name}").rename(notes / program.name)
time.sleep(60)
"""
SERVERS = ("redis-server", "postgres", "placement", "scheduler")
PROGRAMS = ("redis-server", "placement", "scheduler", "daprd")


def tools(folder: Path) -> Path:
    """A folder for the PATH with what a script needs, and nothing else."""
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(str(shutil.which(tool)))
    return folder


def run(tmp_path: Path, *arguments: str, there: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
    """The script, where the only programs are `there`, which end at once."""
    path = tools(tmp_path / "tools")
    for name in there:
        put(path, name, f"echo {name} cannot go on\nexit 1\n")
    script = begin(tmp_path, path, *arguments)
    said, complaints = script.communicate(timeout=60)
    return subprocess.CompletedProcess(script.args, script.returncode, said, complaints)


def begin(
    tmp_path: Path, path: Path, *arguments: str, before: Sequence[str] = (), prepared: bool = True
) -> "subprocess.Popen[str]":
    """The script with nothing on its PATH but `path`; `before` stands before its command."""
    scripts = make_checkout(tmp_path / "a check out")
    if not prepared:
        shutil.rmtree(scripts.parent / ".venv")
    return subprocess.Popen(
        [*before, str(scripts / "cluster"), *arguments],
        cwd=tmp_path,
        env=environ_of(PATH=str(path), HOME=str(tmp_path), PUNCTUAL_DAPR_BIN=str(tmp_path / "programs")),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def put(path: Path, name: str, text: str) -> None:
    """A program on the PATH."""
    (path / name).write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
    (path / name).chmod(0o755)


def test_a_missing_program_is_named_with_what_to_install(tmp_path: Path) -> None:
    """A line for each, exit code 2, and nothing was started or made."""
    done = run(tmp_path, "--data", str(tmp_path / "data"))
    assert done.returncode == 2, done.stderr
    lines = done.stdout.splitlines()
    assert "redis-server is missing: Debian, Ubuntu: apt-get install redis-server" in lines
    for name in PROGRAMS[1:]:
        assert f"{name} is missing: dapr init --slim, or name its folder in PUNCTUAL_DAPR_BIN" in lines
    assert not (tmp_path / "data").exists()


def test_what_is_missing_is_named_before_anything_is_installed(tmp_path: Path) -> None:
    """No virtual environment is made for a cluster that cannot start; any Python can tell."""
    path = tools(tmp_path / "tools")
    put(path, "python3", f'exec "{sys.executable}" "$@"\n')
    script = begin(tmp_path, path, prepared=False)
    said, complaints = script.communicate(timeout=60)
    assert script.returncode == 2, complaints
    assert "daprd is missing: dapr init --slim, or name its folder in PUNCTUAL_DAPR_BIN" in said
    assert not (tmp_path / "a check out" / ".venv").exists()


def test_what_is_there_is_not_named(tmp_path: Path) -> None:
    """On the PATH is as good as anywhere."""
    done = run(tmp_path, there=("redis-server", "daprd"))
    assert done.returncode == 2, done.stderr
    named = [line.partition(" is missing")[0] for line in done.stdout.splitlines()]
    assert [name for name in named if name != "initdb"] == ["placement", "scheduler"]


def test_a_program_that_does_not_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    """Exit code 1; what had started is stopped."""
    data = tmp_path / "data"
    done = run(tmp_path, "--data", str(data), there=(*PROGRAMS, "initdb"))
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[:2] == ["redis      did not start:", "redis-server cannot go on"]
    assert "stopping ..." in done.stdout
    assert (data / "redis.log").exists()


def test_two_clusters_on_one_folder_are_refused(tmp_path: Path) -> None:
    """Exit code 3 with the process that has it, before anything is started."""
    data = tmp_path / "data"
    held = FolderLock.claim(data)
    done = run(tmp_path, "--data", str(data), there=(*PROGRAMS, "initdb"))
    held.release()
    assert done.returncode == 3, done.stderr
    assert f"is in use by process {os.getpid()}." in done.stdout
    assert [path.name for path in data.iterdir()] == ["lock"]


def test_ctrl_c_twice_ends_what_does_not_end_by_itself(tmp_path: Path) -> None:
    """The first one asks, the second one kills: no process stays behind."""
    path = tools(tmp_path / "tools")
    note = tmp_path / "process"
    for name in (*PROGRAMS, "initdb"):
        put(path, name, f"trap '' TERM\necho $$ >{note}.new\nmv {note}.new {note}\nexec sleep 60\n")
    (path / "mv").symlink_to(str(shutil.which("mv")))
    script = begin(tmp_path, path, "--data", str(tmp_path / "data"))
    assert script.stdout is not None
    try:
        assert until(note.exists)
        script.send_signal(signal.SIGINT)
        assert "stopping ..." in script.stdout.readline()
        script.send_signal(signal.SIGINT)
        assert script.wait(20) == 0
        with pytest.raises(ProcessLookupError):
            os.kill(int(note.read_text()), 0)
    finally:
        script.kill()
        script.communicate()


def stand_ins(tmp_path: Path) -> Path:
    """The folder of notes of stand-ins for all programs: each writes its process number there, and listens.

    The scheduler service does not listen, so that the cluster waits for it.
    """
    notes, programs = tmp_path / "notes", tmp_path / "programs"
    notes.mkdir()
    programs.mkdir()
    for name in SERVERS:
        (programs / name).write_text(f"#!{sys.executable}\n{SERVER}", encoding="utf-8")
    for name in ("initdb", "pg_isready", "daprd"):
        (programs / name).write_text("#!/bin/sh\n", encoding="utf-8")
    for program in programs.iterdir():
        program.chmod(0o755)
    return notes


@contextlib.contextmanager
def starting(
    tmp_path: Path, before: Sequence[str] = ()
) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    """A cluster in the middle of its start, and the process numbers of what is running."""
    notes = stand_ins(tmp_path)
    path = tools(tmp_path / "tools")
    (path / "setpriv").symlink_to(shutil.which("setpriv") or "/none")
    script = begin(tmp_path, path, "--data", str(tmp_path / "data"), before=before)
    try:
        assert until(lambda: {note.name for note in notes.glob("[a-z]*")} == set(SERVERS)), script.poll()
        yield script, [int(note.read_text()) for note in notes.glob("[a-z]*")]
    finally:
        script.kill()
        script.communicate()


def is_running(process: int) -> bool:
    """Whether there is such a process that has not ended; who ended may not have been waited for."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


@ON_LINUX
def test_a_killed_cluster_leaves_no_process_behind(tmp_path: Path) -> None:
    """`kill -9`: what it had started ends at once, and its folder is free."""
    with starting(tmp_path) as (script, processes):
        assert all(map(is_running, processes))
        script.kill()
        assert until(lambda: not any(map(is_running, processes)))
    FolderLock.claim(tmp_path / "data").release()


@ON_LINUX
def test_sigterm_ends_it_where_sigint_is_ignored(tmp_path: Path) -> None:
    """As in the background of a script: exit code 0, and everything was stopped, not killed."""
    with starting(tmp_path, before=["sh", "-c", 'trap "" INT; exec "$@"', "sh"]) as (script, processes):
        script.send_signal(signal.SIGINT)
        assert all(map(is_running, processes))
        script.terminate()
        assert script.wait(20) == 0
        assert not any(map(is_running, processes))
    ended = [note.name for note in (tmp_path / "notes").glob(".*.ended")]
    assert sorted(ended) == sorted(f".{name}.ended" for name in SERVERS)


def until(condition: Callable[[], bool]) -> bool:
    """Whether it came true within 30 s."""
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def test_an_option_that_there_is_not_is_refused(tmp_path: Path) -> None:
    """With those that there are."""
    done = run(tmp_path, "--nodes", "3", there=(*PROGRAMS, "initdb"))
    assert done.returncode == 2
    assert "[--port PORT] [--data DATA]" in done.stderr
