"""The base install is light: the SDK needs no server and no database (SPEC section 16)."""

import subprocess
import sys

import pytest

HEAVY = ("sqlalchemy", "fastapi", "starlette", "uvicorn", "sqlite3", "alembic", "structlog", "typer")


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a fresh Python has after `statement`."""
    code = f"{statement}\nimport sys\nprint(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_nothing_heavy_is_loaded() -> None:
    """No database, no web framework, no server; nor anything of the service."""
    loaded = loaded_by(
        "from client_sdk import *\nimport client_sdk.worker, client_sdk.target, client_sdk.client"
    )
    assert not [name for name in loaded if name.partition(".")[0] in (*HEAVY, "scheduler_service")]


def test_lite_loads_the_core_alone() -> None:
    """Without a server, and without what only a server needs."""
    loaded = loaded_by("import client_sdk.lite")
    assert not [name for name in loaded if name.partition(".")[0] in HEAVY]
    rooms = {name.split(".")[1] for name in loaded if name.startswith("scheduler_service.")}
    assert rooms == {"domain", "engine", "language", "timing"}


def test_the_models_load_no_client() -> None:
    """The service uses them too."""
    assert "httpx" not in loaded_by("import client_sdk.models")


def test_what_is_not_there_is_said_so() -> None:
    """As of any module."""
    with pytest.raises(ImportError, match="Nothing"):
        exec("from client_sdk import Nothing", {})
