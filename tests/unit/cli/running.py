"""Runs commands in this process."""

import pytest

from scheduler_service.cli.main import run


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """(exit code, output, messages) of a command."""
    code = run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err
