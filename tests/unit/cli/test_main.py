"""Commands that need no service, how commands end, and what serve and demo refuse (SPEC section 16)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_service.app.data_folder import known_formats
from tests.rows import each_row
from tests.unit.cli.running import Ran


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("jobs", "nonsense"),
        ("jobs", "list", "--nonsense"),
        ("jobs", "list", "--limit", "501"),
        ("upcoming", "--per-job", "0"),
        ("upcoming", "--per-job", "1001"),
        ("jobs", "get"),
        ("jobs", "list", "-o", "xml"),
        ("jobs", "trigger", "a", "novalue"),
        ("jobs", "create", "-f", "missing.json"),
        ("jobs", "list", "--url", "127.0.0.1:8000"),
        ("jobs", "list", "--url", "ftp://127.0.0.1"),
        ("jobs", "list", "--url", "http://[::1"),
        ("jobs", "list", "--key", "kéy"),
        ("serve", "--runtime", "cloud"),
        ("serve", "--workers", "0"),
        ("serve", "--workers", "2", "--runtime", "dapr"),
        ("serve", "--store", "sqlite://x"),
        ("serve", "--store", "redis://x"),
        ("serve", "--port", "99999"),
        ("serve", "--log-level", "loud"),
        ("serve", "--log-format", "xml"),
        ("serve", "--config", "missing.toml"),
        ("db", "check", "--data", ":memory:"),
        ("settings", "--config", "missing.toml"),
        ("worker", "nocolon"),
        ("worker", "nowhere_at_all:worker"),
        ("worker", "json:worker"),
        ("worker", "json:loads"),
        ("worker", "examples.pull_worker:worker", "--url", "nowhere"),
        ("worker", "examples.pull_worker:worker", "--concurrency", "0"),
    ],
)
def test_a_wrong_command_line_ends_with_2_in_words(ran: Ran, arguments: tuple[str, ...]) -> None:
    """Exit code 2, a message on standard error, nothing on standard output, no stack trace (16)."""
    code, out, err = ran(*arguments)
    assert (code, out) == (2, "")
    assert err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs", "create", "-f", "a.json", "--file", "b.json"),
        ("jobs", "list", "--state", "active", "--state=paused"),
        ("jobs", "list", "--limit", "1", "--limit", "2"),
        ("jobs", "list", "-o", "json", "-oyaml"),
        ("jobs", "list", "--url", "http://127.0.0.1:1", "--url", "http://127.0.0.1:2"),
        ("services", "apply", "s", "-f", "a.json", "-f", "b.json"),
        ("templates", "preview", "x", "--root", "{}", "--root", "{}"),
        ("timers", "preview", "1h", "--timezone", "UTC", "--timezone", "Asia/Shanghai"),
        ("serve", "--data", "a", "--data", "b"),
        ("demo", "--crash", "--no-crash"),
        ("settings", "--config", "a.toml", "--config", "b.toml"),
        ("db", "check", "--data", "a", "--data", "b"),
        ("jobs", "bulk", "label", "a", "--put", "k:1", "--put", "k:2"),
        ("jobs", "bulk", "label", "a", "--put", "k:1", "--remove", "k"),
    ],
)
def test_an_option_that_is_given_twice_is_refused(ran: Ran, arguments: tuple[str, ...]) -> None:
    """Else one of the two values would be lost without a word (16)."""
    code, out, err = ran(*arguments)
    assert (code, out) == (2, "")
    assert "twice; " in err


def test_help_is_no_error(ran: Ran) -> None:
    """`--help` ends with 0."""
    code, out, _ = ran("jobs", "create", "--help")
    assert code == 0
    assert "Example:" in out
    # A switch may be repeated: it says the same again
    arguments = ("--drain", "--drain", "--url", "http://127.0.0.1:1")
    assert ran("jobs", "pause", "a", *arguments)[0] == 3
    # The version is an option too: as people try it first
    code, out, err = ran("--version")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"punctual \d+\.\d+\.\d+\S*\n", out)
    # Version is shown: with the formats of the data that this program keeps, in every form
    code, out, err = ran("version", "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["formats"] == known_formats()
    line = f"state {known_formats()['state']}, history {known_formats()['history']}, cluster"
    assert line in ran("version")[1]


def python(program: str, *, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A program in a Python of its own."""
    command = [sys.executable, "-c", f"import sys\nfrom scheduler_service.cli.main import run\n{program}"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **(env or {})}
    )


@each_row(
    ("arguments", "heavy"),
    [
        (["--help"], ("pydantic", "httpx", "asyncio", "scheduler_service.settings")),
        (["jobs", "list"], ("click", "pygments", "client_sdk.models", "scheduler_service.settings")),
    ],
)
def test_a_command_imports_what_it_needs(arguments: list[str], heavy: tuple[str, ...]) -> None:
    """Imports are most of the time that a command takes (16)."""
    program = f"run({arguments!r})\nprint([one for one in {heavy!r} if one in sys.modules], file=sys.stderr)"
    done = python(program, env={"PUNCTUAL_URL": "http://127.0.0.1:1"})
    assert done.stderr.splitlines()[-1] == "[]"


def test_completion_is_there() -> None:
    """Of commands and options, in the shell that asks (16)."""
    environ = {
        **os.environ,
        "_PUNCTUAL_COMPLETE": "complete_bash",
        "COMP_WORDS": "punctual jo",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "scheduler_service"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environ,
    )
    assert done.stdout.split() == ["jobs"]


def test_a_missing_extra_is_named() -> None:
    """A command whose extra is missing says what to install (16)."""
    program = "sys.modules['fastapi'] = None\nprint(run(['serve', '--data', ':memory:']), run(['demo']))"
    done = python(program)
    assert done.stdout == "2 2\n", done.stderr
    assert done.stderr.count("in a checkout of Punctual: pip install '.[service]'") == 2
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_crash() -> None:
    """`punctual settings | head -0` ends without a stack trace."""
    command = f"{{ {sys.executable} -m scheduler_service settings; echo $? >&2; }} | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "0\n"


def test_an_output_that_cannot_be_written_is_named() -> None:
    """As where the disk is full; exit code 1."""
    command = f"{sys.executable} -m scheduler_service settings > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "punctual: the output cannot be written: No space left on device\n",
    )


def test_an_env_file_that_cannot_be_read_is_named_at_once(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong setting is refused at the start with exit code 2 (SPEC section 16)."""
    monkeypatch.setenv("PUNCTUAL_ENV_FILE", "missing.sh")
    code, out, err = ran("serve")
    assert (code, out) == (2, "")
    assert "env_file missing.sh" in err


def test_who_has_jobs_in_redis_is_told_the_way_out(ran: Ran) -> None:
    """By the option and by the setting; the address is not shown (16)."""
    code, out, err = ran("serve", "--store", "redis://:hidden@127.0.0.1:1/0")
    assert (code, out) == (2, "")
    assert "punctual jobs apply -f FILE" in err
    assert "contexts.url" in err
    assert "hidden" not in err


def test_the_demo_is_one_process(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not show the ends of executions in others; whoever asks for them is told so (16)."""
    monkeypatch.setenv("PUNCTUAL_SERVER__WORKERS", "2")
    code, _, err = ran("demo")
    assert code == 2
    assert "leave server.workers out" in err


def test_settings_show_values_and_sources(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each effective value and where it comes from; a wrong one ends with 2 (16)."""
    Path("p.toml").write_text("[limits]\nready = 7\n", encoding="utf-8")
    monkeypatch.setenv("PUNCTUAL_CONFIG", "p.toml")
    monkeypatch.setenv("PUNCTUAL_SERVER__KEY", "0123456789abcdef")
    code, out, _ = ran("settings")
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert code == 0
    assert lines["limits.ready"] == ["7", "file", "p.toml"]
    assert lines["server.key"] == ["***", "environment"]
    monkeypatch.setenv("PUNCTUAL_SERVER__PORT", "none")
    code, _, err = ran("settings")
    assert code == 2
    assert "server.port = 'none' (environment)" in err


def test_settings_name_a_file_of_a_certificate_that_cannot_be_read(ran: Ran, tmp_path: Path) -> None:
    """As a start does: what is shown would not serve."""
    (tmp_path / "key.pem").write_text("no key")
    entry = f"origin = 'https://a.test'\ncert = '{tmp_path}/gone.pem'\nkey = '{tmp_path}/key.pem'\n"
    (tmp_path / "own.toml").write_text(f"[[egress.client_certificates]]\n{entry}")
    code, _, err = ran("settings", "--config", str(tmp_path / "own.toml"))
    assert code == 2
    assert f"https://a.test cannot be read ({tmp_path}/gone.pem: No such file" in " ".join(err.split())
