"""The peers' packages, in a folder outside the checkout.

It is `PUNCTUAL_BENCH_CACHE`, else `~/.cache/punctual-bench`. Packages are installed by name and version by
the ordinary clients, once, and anew when the versions change. Each program has an environment of its own,
since they do not agree on a client for Redis.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.bench.compare.processes import ROOT

PEERS = ROOT / "tests" / "bench" / "peers"
SECONDS = 600  # an installation that takes longer is given up


class NotInstalledError(Exception):
    """Packages could not be installed; the message says which and why."""


class Cache:
    """Finds and installs what the peers need."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.modules = folder / "node" / "node_modules"

    def python(self, program: str) -> Path:
        """The interpreter with a program's packages."""
        return self._folder / program / "bin" / "python"

    def prepare_python(self, program: str) -> None:
        """Makes an environment with the packages of a program. Raises NotInstalledError."""
        wanted, place = PEERS / "requirements" / f"{program}.txt", self._folder / program
        mark = place / "installed"
        if _says(mark, text := f"{sys.version}\n{wanted.read_text()}"):
            return
        _run([sys.executable, "-m", "venv", "--clear", str(place)], self._folder)
        pip = [str(self.python(program)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "-r", str(wanted)], self._folder)
        mark.write_text(text)

    def prepare_node(self) -> None:
        """Makes a folder with the packages of package.json. Raises NotInstalledError."""
        wanted = PEERS / "package.json"
        mark = self.modules / "installed"
        if _says(mark, wanted.read_text()):
            return
        self.modules.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(wanted, self.modules.parent)
        _run(["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"], self.modules.parent)
        mark.write_text(wanted.read_text())


def open_cache() -> Cache:
    """The cache that the environment names, or the default one."""
    named = os.environ.get("PUNCTUAL_BENCH_CACHE")
    return Cache(Path(named).expanduser() if named else Path.home() / ".cache" / "punctual-bench")


def pinned_versions(program: str) -> dict[str, str]:
    """name → version of all that is pinned for a program; empty for one without packages of its own."""
    if program.endswith(".cjs"):
        found: dict[str, str] = json.loads((PEERS / "package.json").read_text())["dependencies"]
        return found
    wanted = PEERS / "requirements" / f"{program}.txt"
    lines = wanted.read_text().splitlines() if wanted.is_file() else []
    return {name: version for name, _, version in (line.partition("==") for line in lines)}


def _says(mark: Path, text: str) -> bool:
    return mark.is_file() and mark.read_text() == text


def _run(command: list[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip() or "no message").splitlines()[-1]
        raise NotInstalledError(f"{' '.join(command[:4])} … failed: {reason}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(f"{' '.join(command[:4])} … failed: {error}") from error
