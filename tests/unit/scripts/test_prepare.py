"""The scripts of a checkout, under every shell of this machine, with stand-ins for Python on the PATH."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rows import each_row

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ("scripts/run", "scripts/test", "scripts/check", "scripts/cluster", ".ci/run")
# Where sh is dash, as on Debian, once is enough.
SHELLS = sorted(
    {str(Path(path).resolve()) for shell in ("sh", "dash", "bash") if (path := shutil.which(shell))}
)
TOOLS = ("cat", "cksum", "dirname", "env", "sh", "mkdir", "chmod", "cp", "rm")
# A virtual environment whose pip notes what it was asked for, and whose `punctual` says how it was called.
MAKES_VENV = """#!/bin/sh
case "$*" in
*"-m venv"*) mkdir -p .venv/bin; cp "$0" .venv/bin/python; cp "$0.punctual" .venv/bin/punctual ;;
*"-m pip "*install*) echo "$*" >> .venv/installed ;;
esac
"""
PUNCTUAL = """#!/bin/sh
echo "in $PWD:"
for word in "$@"; do echo "<$word>"; done
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=SHELLS)
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Run]:
    """A checkout with blanks in its name, and a way to run its scripts with nothing else on the PATH."""
    root = tmp_path / "a check out"
    tools = tmp_path / "tools"
    shutil.copytree(ROOT / "scripts", root / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        (root / name).write_text("", encoding="utf-8")
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(str(shutil.which(tool)))

    def run(script: str, *arguments: str, cwd: Path = tmp_path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [request.param, str(root / script), *arguments],
            cwd=cwd,
            env={"PATH": str(tools)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    return root, run


def put(root: Path, name: str, text: str) -> None:
    """A program on the PATH of the checkout."""
    path = root.parent / "tools" / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@each_row("script", [*SCRIPTS, "scripts/prepare"])
@each_row("shell", SHELLS)
def test_scripts_can_be_read_by_every_shell(script: str, shell: str) -> None:
    """POSIX sh, nothing else."""
    subprocess.run([shell, "-n", str(ROOT / script)], check=True, timeout=30)


@each_row("script", SCRIPTS)
def test_scripts_can_be_started(script: str) -> None:
    """They are executable and name their shell."""
    assert os.access(ROOT / script, os.X_OK)
    assert (ROOT / script).read_text(encoding="utf-8").startswith("#!/bin/sh\n")


def test_a_python_that_is_too_old_is_named(checkout: tuple[Path, Run]) -> None:
    """With what was found, what is needed, and the remedy."""
    root, run = checkout
    put(root, "python3", '#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit\nexit 1\n')
    done = run("scripts/run")
    assert done.returncode == 1
    assert "Punctual needs Python 3.11 or newer; found: Python 3.9.2." in done.stderr
    assert "PUNCTUAL_PYTHON" in done.stderr
    assert not (root / ".venv").exists()


def test_a_missing_python_is_named(checkout: tuple[Path, Run]) -> None:
    """Where there is no Python at all."""
    done = checkout[1]("scripts/run")
    assert done.returncode == 1
    assert "Punctual needs Python 3.11 or newer; found: " in done.stderr


def test_a_missing_venv_is_named(checkout: tuple[Path, Run]) -> None:
    """Debian's Python comes without the module venv."""
    root, run = checkout
    put(root, "python3", '#!/bin/sh\ncase "$2" in *ensurepip*) exit 1 ;; esac\n')
    done = run("scripts/test")
    assert done.returncode == 1
    assert "The Python module venv is missing for python3." in done.stderr
    assert "python3-venv" in done.stderr


def test_packages_that_cannot_be_installed_are_told(checkout: tuple[Path, Run]) -> None:
    """As without a network; the next run tries again."""
    root, run = checkout
    put(root, "python3", MAKES_VENV.replace('echo "$*" >> .venv/installed', "exit 1"))
    put(root, "python3.punctual", PUNCTUAL)
    for _ in range(2):
        done = run("scripts/run", "version")
        assert done.returncode == 1
        assert "is a package index within reach?" in done.stderr
        assert done.stdout == ""


def test_run_prepares_once_and_hands_its_arguments_over(checkout: tuple[Path, Run]) -> None:
    """From any folder, which stays the one in which the command line runs; without arguments the demo."""
    root, run = checkout
    put(root, "python3", MAKES_VENV)
    put(root, "python3.punctual", PUNCTUAL)
    elsewhere = root.parent
    assert run("scripts/run").stdout == f"in {elsewhere}:\n<demo>\n"
    done = run("scripts/run", "jobs", "trigger", "a b", "c=*")
    assert done.stdout == f"in {elsewhere}:\n<jobs>\n<trigger>\n<a b>\n<c=*>\n"
    assert done.stderr == ""
    installed = (root / ".venv" / "installed").read_text(encoding="utf-8").splitlines()
    assert len(installed) == 1
    assert installed[0].endswith("--constraint constraints.txt --editable .[service]")


def test_what_was_prepared_for_the_tests_is_enough_to_run(checkout: tuple[Path, Run]) -> None:
    """One environment for all scripts; a change of the dependencies prepares it anew."""
    root, run = checkout
    put(root, "python3", MAKES_VENV)
    put(root, "python3.punctual", PUNCTUAL)
    run("scripts/check")
    run("scripts/run")
    installed = root / ".venv" / "installed"
    assert installed.read_text(encoding="utf-8").count("\n") == 1
    assert installed.read_text(encoding="utf-8").endswith(
        ".[service,dapr,postgres,mysql,redis,secrets,holidays,otel,test]\n"
    )
    (root / "constraints.txt").write_text("httpx==1", encoding="utf-8")
    run("scripts/run")
    assert installed.read_text(encoding="utf-8").count("\n") == 2


@pytest.mark.parametrize(("how", "is_ours"), [('{"dir_info": {"editable": true}}', True), ("{}", False)])
def test_what_was_installed_under_the_former_name_is_removed(
    checkout: tuple[Path, Run], how: str, is_ours: bool
) -> None:
    """Before the installation, whose command it would take away; another program of that name stays."""
    root, run = checkout
    put(root, "python3", MAKES_VENV)
    put(root, "python3.punctual", PUNCTUAL)
    run("scripts/run")
    record = root / ".venv" / "lib" / "python3.12" / "site-packages" / "punctual-0.1.0.dist-info"
    record.mkdir(parents=True)
    (record / "direct_url.json").write_text(how, encoding="utf-8")
    (root / "punctual.egg-info").mkdir()
    (root / "pyproject.toml").write_text("changed", encoding="utf-8")
    run("scripts/run")
    _, *later = (root / ".venv" / "installed").read_text(encoding="utf-8").splitlines()
    assert [line.split()[2] for line in later] == (["uninstall"] if is_ours else []) + ["install"]
    assert not is_ours or later[0].endswith("--yes punctual")
    assert (root / "punctual.egg-info").exists() is not is_ours
