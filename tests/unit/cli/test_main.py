"""Commands that need no service, and how commands end (SPEC section 16)."""

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_service.cli.main import run

RIGHT = (
    '{"jobId": "a", "jobName": "A", "creator": "1", "creatorName": "one", "request": [{"url": "http://x/"}]}'
)
NOBODY = "http://127.0.0.1:1"


def test_a_definition_may_leave_its_id_to_the_path(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`lint` takes a definition without `jobId`, as it is posted to `/jobs/{jobId}` (SPEC section 2)."""
    file = tmp_path / "job.json"
    file.write_text(RIGHT.replace('"jobId": "a", ', ""), encoding="utf-8")
    assert ended(capsys, "lint", str(file))[0] == 0


def test_an_env_file_that_cannot_be_read_is_named_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong setting is refused at the start with exit code 2 (SPEC section 16)."""
    monkeypatch.setenv("PUNCTUAL_ENV_FILE", "missing.sh")
    code, out, err = ended(capsys, "serve")
    assert (code, out) == (2, "")
    assert "env_file missing.sh" in err


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """(exit code, output, messages) of a command."""
    code = run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty folder, and nothing of the caller's environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("PUNCTUAL_URL", "PUNCTUAL_KEY", "PUNCTUAL_CONFIG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("jobs", "nonsense"),
        ("jobs", "list", "--nonsense"),
        ("jobs", "list", "--limit", "501"),
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
        ("serve", "--store", "redis://x", "--runtime", "dapr"),
        ("serve", "--port", "99999"),
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
def test_a_wrong_command_line_ends_with_2_in_words(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """Exit code 2, a message on standard error, nothing on standard output, no stack trace (16)."""
    code, out, err = ended(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err
    assert "Traceback" not in err


def test_the_demo_leaves_the_jobs_of_a_service_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps its own in `--data`, whatever the environment says of the store (16)."""
    monkeypatch.setenv("PUNCTUAL_STORE__URL", "redis://127.0.0.1:1/0")
    code, _, err = ended(capsys, "demo")
    assert code == 2
    assert "leave store.url out" in err


def test_the_demo_is_one_process(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not show the ends of executions in others; whoever asks for them is told so (16)."""
    monkeypatch.setenv("PUNCTUAL_SERVER__WORKERS", "2")
    code, _, err = ended(capsys, "demo")
    assert code == 2
    assert "leave server.workers out" in err


def test_with_the_state_elsewhere_the_history_is_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`db check` and `db migrate` are about the files of the data folder (16)."""
    monkeypatch.setenv("PUNCTUAL_STORE__URL", "redis://127.0.0.1:1/0")
    assert ended(capsys, "db", "check", "--data", str(tmp_path))[0] == 1
    assert ended(capsys, "db", "migrate", "--data", str(tmp_path))[0] == 0
    assert ended(capsys, "db", "check", "--data", str(tmp_path))[0] == 0
    assert not (tmp_path / "state.db").exists()


def test_lint_finds_an_id_that_is_given_twice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An array creates each job once: of two with one id the second would be refused, or win (16)."""
    file = tmp_path / "jobs.json"
    other = RIGHT.replace('"jobId": "a"', '"jobId": "b"')
    file.write_text(f"[{RIGHT},\n{other},\n{RIGHT}]", encoding="utf-8")
    code, out, _ = ended(capsys, "lint", str(file))
    assert code == 1
    assert out.startswith(f"{file}:3:11: error: /2/jobId: jobId 'a' is given to two definitions")
    assert out.count("\n") == 1


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` ends with 0."""
    code, out, _ = ended(capsys, "jobs", "create", "--help")
    assert code == 0
    assert "Example:" in out


def test_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """In every form."""
    code, out, err = ended(capsys, "version", "-o", "json")
    assert (code, err) == (0, "")
    assert '"punctual"' in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs", "list"),
        ("jobs", "get", "a"),
        ("jobs", "delete", "a"),
        ("jobs", "trigger", "a", "--wait"),
        ("executions", "watch", "a-1"),
        ("timers", "preview", "5m"),
    ],
)
def test_a_service_that_cannot_be_reached_ends_with_3(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """Exit code 3; the message names the address and the remedy (16)."""
    code, out, err = ended(capsys, *arguments, "--url", NOBODY)
    assert (code, out) == (3, "")
    assert NOBODY in err
    assert "punctual serve" in err


def test_the_environment_names_the_service(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PUNCTUAL_URL counts where --url is not given (16)."""
    monkeypatch.setenv("PUNCTUAL_URL", NOBODY)
    assert NOBODY in ended(capsys, "jobs", "list")[2]
    assert "http://127.0.0.1:2" in ended(capsys, "jobs", "list", "--url", "http://127.0.0.1:2")[2]


def test_lint_says_what_is_wrong_and_where(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`FILE:LINE:COLUMN: error: POINTER: …`, exit code 1 (16)."""
    path = tmp_path / "jobs.json"
    path.write_text(f'[\n{RIGHT},\n{{"jobId": "b",\n  "sgn": 1}}\n]', encoding="utf-8")
    code, out, err = ended(capsys, "lint", str(path))
    assert code == 1
    assert f"{path}:4:10: error: /1/sgn: unknown field 'sgn'" in out
    assert f"{path}:3:1: error: /1/jobName: " in out
    assert "1 of 2 definitions are wrong" in err


def test_lint_is_content_with_what_is_right(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Exit code 0; warnings are told and are no errors (16)."""
    path = tmp_path / "job.json5"
    path.write_text(
        RIGHT[:-1]
        + ', "timer": {"dueTime": "1h"}, "notification": [{"url": "http://x/", "stateEquals": "500"}]}',
        encoding="utf-8",
    )
    code, out, err = ended(capsys, "lint", str(path))
    assert code == 0
    assert "warning: /notification:" in out
    assert "1 definition OK" in err


def test_lint_refuses_what_no_service_would_take(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Timers, templates and JSONPath are compiled as the service does it (16)."""
    path = tmp_path / "job.yaml"
    path.write_text(
        "jobId: a\njobName: A\ncreator: '1'\ncreatorName: one\n"
        "timer:\n  period: '61 * * * * ?'\nrequest:\n- url: 'http://x/${$.[}'\n- url: queue://\n",
        encoding="utf-8",
    )
    code, out, _ = ended(capsys, "lint", str(path))
    assert code == 1
    assert ":6:11: error: /timer/period:" in out
    assert ":8:8: error: /request/0/url:" in out
    assert ":9:8: error: /request/1/url: " in out


def test_lint_points_to_the_text_that_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A `checkUrl` or `timer` that is a text has no members to point to, as the service answers (5, 16)."""
    path = tmp_path / "job.json"
    path.write_text(
        RIGHT[:-1] + ',\n"checkUrl": "http://x:0/",\n"timer": "{\\"period\\": \\"x y\\"}"}', encoding="utf-8"
    )
    code, out, _ = ended(capsys, "lint", str(path))
    assert code == 1
    assert f"{path}:2:13: error: /checkUrl: the port" in out
    assert f"{path}:3:10: error: /timer: " in out


def test_settings_show_values_and_sources(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each effective value and where it comes from; a wrong one ends with 2 (16)."""
    (tmp_path / "p.toml").write_text("[limits]\nready = 7\n", encoding="utf-8")
    monkeypatch.setenv("PUNCTUAL_CONFIG", "p.toml")
    monkeypatch.setenv("PUNCTUAL_SERVER__KEY", "0123456789abcdef")
    code, out, _ = ended(capsys, "settings")
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert code == 0
    assert lines["limits.ready"] == ["7", "file", "p.toml"]
    assert lines["server.key"] == ["(set)", "environment"]
    monkeypatch.setenv("PUNCTUAL_SERVER__PORT", "none")
    code, _, err = ended(capsys, "settings")
    assert code == 2
    assert "server.port = 'none' (environment)" in err


@pytest.mark.parametrize("arguments", [("serve", "--data", ":memory:"), ("demo",)])
def test_a_missing_extra_is_named(arguments: tuple[str, ...]) -> None:
    """A command whose extra is missing says what to install (16)."""
    program = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from scheduler_service.cli.main import run\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments, "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install 'punctual[service]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_crash() -> None:
    """`punctual settings | head -0` ends without a stack trace."""
    command = f"{sys.executable} -m scheduler_service settings | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
