"""A copy of this checkout's scripts whose virtual environment is the one that runs the tests."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Everything is installed already: pip has nothing to do.
PYTHON = f"""#!/bin/sh
case "$*" in *"-m pip install"*) exit 0 ;; esac
exec "{sys.executable}" "$@"
"""


def make_checkout(folder: Path) -> Path:
    """Makes it in `folder`; the path of its scripts."""
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    shutil.copytree(ROOT / "components", folder / "components")
    for name in ("pyproject.toml", "constraints.txt", "resiliency.yaml"):
        shutil.copy(ROOT / name, folder)
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    return folder / "scripts"


def environ_of(**members: str) -> Mapping[str, str]:
    """The environment for its scripts: they find the packages of this checkout."""
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | members
