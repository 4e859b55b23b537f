"""Files from strangers, given to `lint`, `jobs diff`, `templates preview` and `db restore`."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler_service.cli.main import run
from scheduler_service.persistence.sqlite.folder_lock import BACKUP_LIST

ALIASES = "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
RED = "\x1b[31m\x9b2J"
CONTENTS: dict[str, bytes] = {
    "deep.json": b"[" * 200_000,
    "deep.json5": b"[" * 200_000,
    "deep.yaml": b"[" * 2_000,
    "objects.json": b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    "aliases.yaml": ALIASES.encode(),
    "circle.yaml": b"a: &a [*a]\n",
    "circle_of_maps.yaml": b"&a\nx: *a\n",
    "tag.yaml": b'!!python/object/apply:os.system ["exit 1"]\n',
    "control.yaml": f'jobId: "{RED}"'.encode(),
    "hexadecimal.json5": b"{jobId: 0x" + b"f" * 10_000 + b"}",
    "key.yaml": b"? [a]\n: b\n",
    "binary.json": bytes(range(256)) * 100,
    "zeros.json": b"\0" * 1_000,
    "digits.json": b'{"jobId": ' + b"9" * 100_000 + b"}",
    "surrogate.json": b'{"jobId": "\\ud800", "jobName": "x"}',
    "escapes.json": f'{{"jobId": "a", "{RED}": 1, "jobName": "{RED}"}}'.encode().replace(b"\x1b", b"\\u001b"),
}
MAKERS: dict[str, Callable[[Path], None]] = {
    "folder.json": Path.mkdir,
    "nowhere.json": lambda path: path.symlink_to(path.parent / "missing"),
    "loop.json": lambda path: path.symlink_to(path),
    "endless.json": lambda path: path.symlink_to("/dev/zero"),
}


def make(folder: Path, name: str) -> Path:
    """The hostile file of a name."""
    path = folder / name
    if name in MAKERS:
        MAKERS[name](path)
    else:
        path.write_bytes(CONTENTS[name])
    return path


def check(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    """The command refuses it in words, and nothing that it prints drives a terminal; what it says."""
    assert run(list(command)) in (1, 2, 3)
    said = capsys.readouterr()
    text = said.out + said.err
    assert text
    assert "Traceback" not in text
    assert len(text) < 20_000
    assert [letter for letter in text if not letter.isprintable() and letter != "\n"] == []
    return text


@pytest.mark.parametrize("name", [*CONTENTS, *MAKERS])
def test_a_definition_is_refused_in_words(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    """Whatever it is: deep, circular, binary, endless, no file at all, or full of control characters."""
    check(capsys, "lint", str(make(tmp_path, name)))


def make_folder(folder: Path, what: str) -> None:
    """A folder that is hostile in one way."""
    match what:
        case "loop":
            (folder / "again").symlink_to(folder)
        case "pipe":
            os.mkfifo(folder / "pipe.json")
        case "deep":
            place = folder
            for _ in range(300):
                place = place / "d"
                place.mkdir()
            (place / "a.json").write_bytes(CONTENTS["deep.json"])
        case "huge":
            with (folder / "huge.json").open("wb") as stream:
                stream.truncate(100 << 20)
        case "bombs":
            (folder / "bombs.yaml").write_text("---\n".join([ALIASES] * 20), encoding="utf-8")
        case "names":
            (folder / f"{RED}.json").write_bytes(b"[")
        case _:
            (folder / "a.yaml").write_text("jobId: a\n---\njobId: b\n", encoding="utf-8")
            (folder / "b.json").write_bytes(b'{"kind": "Job", "jobId": "a"}')


@pytest.mark.parametrize("command", [("lint",), ("jobs", "apply", "-f"), ("jobs", "diff", "-f")])
@pytest.mark.parametrize("what", ["loop", "pipe", "deep", "huge", "bombs", "names", "twice"])
def test_a_folder_is_refused_in_words(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, what: str, command: tuple[str, ...]
) -> None:
    """Nothing is waited for, followed without end or read whole; of two of one job both places are named."""
    make_folder(tmp_path, what)
    nobody = ("--url", "http://127.0.0.1:1") if "jobs" in command else ()
    said = check(capsys, *command, str(tmp_path), *nobody)
    assert "no service answers" not in said
    if what == "twice":
        assert f"{tmp_path}/b.json:1:26: " in said
        assert f"jobId 'a' is given at {tmp_path}/a.yaml:1:8 already" in said


def test_a_pipe_is_read_to_its_end(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As `lint <(command)` gives one."""
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=('{"jobId": 1}',), daemon=True)
    writer.start()
    check(capsys, "lint", str(pipe))
    writer.join(timeout=30)
    assert not writer.is_alive()


@pytest.mark.parametrize("kind", ["pipe", "folder", "endless", "deep", "binary", "path"])
def test_a_backup_is_refused_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    """Whose list is no list: nothing is waited for, and nothing is written outside the folder."""
    backup, data = tmp_path / "backup", tmp_path / "data"
    backup.mkdir()
    place = backup / BACKUP_LIST
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
        case "endless":
            place.symlink_to("/dev/zero")
        case "deep":
            place.write_bytes(b"[" * 200_000)
        case "binary":
            place.write_bytes(bytes(range(256)))
        case _:
            (tmp_path / "outside.db").write_bytes(b"12")
            place.write_text('{"format": 1, "punctual": "x", "at": "x", "files": {"../outside.db": 2}}')
    check(capsys, "db", "restore", str(backup), "--data", str(data))
    assert not data.exists() or not any(data.iterdir())
