"""punctual serve, demo and settings (SPEC section 16)."""

from pathlib import Path

import pytest

from tests.unit.cli.running import Ran


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
