"""Clients that generators make from `/openapi.json`, each in a program that has a job in a running service.

The programs are those of docs/clients.md. A signature is judged by their libraries, none of which is ours.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.checkout import ROOT, environ_of, make_checkout
from tests.unit.client_sdk.signed import NEW, OLD
from tests.wire.processes.process import Process, bare_environment, serve

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
SECRETS = json.dumps({"default": {"shop": NEW}})
MADE = shutil.ignore_patterns("generated", "node_modules", "target")


def make(language: str, tools: Sequence[str], folder: Path) -> Path:
    """The folder with the program of `language`, made by the script in a copy of the checkout."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} missing: the client in {language} cannot be made")
    make_checkout(folder)
    shutil.copytree(ROOT / "clients", folder / "clients", ignore=MADE)
    command = [str(folder / "clients" / "make"), language]
    made = subprocess.run(command, env=environ_of(), capture_output=True, text=True, timeout=500)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder / "clients" / language


def have_a_job(command: Sequence[str], folder: Path, tmp_path: Path) -> None:
    """The program's execution succeeds by its report; with another secret it refuses the call."""
    with serve(tmp_path / "data", PUNCTUAL_SIGNING__SECRETS=SECRETS, PYTHONPATH=str(ROOT)) as service:
        url = service.wait_for_url()
        for secret, state in ((NEW, "succeeded"), (OLD, "terminated")):
            environ = bare_environment(SHOP_SECRET="whsec_" + secret.removeprefix("whsec_"))
            with Process([*command, url], cwd=folder, environ=environ) as program:
                assert program.wait() == 0, "\n".join(program.err)
            execution_id, said = program.out[-1].split()
            assert said == state, program.out
            read = httpx.get(f"{url}/executions/{execution_id}", trust_env=False).json()["data"]
            (attempt,) = read["attempts"]
            if state == "succeeded":
                (report,) = attempt["feedback"]
                assert (report["stale"], report["body"]["data"]) == (False, {"orders": 7})
            else:
                assert (attempt["steps"][0]["status"], attempt["feedback"]) == (401, [])
            httpx.delete(f"{url}/jobs/close-shop", trust_env=False).raise_for_status()


def test_typescript_in_an_express_service(tmp_path: Path) -> None:
    """`openapi-typescript` and `openapi-fetch`."""
    folder = make("typescript", ("node", "npm"), tmp_path / "checkout")
    have_a_job(["node", "generated/built/job.js"], folder, tmp_path)


def test_go(tmp_path: Path) -> None:
    """`oapi-codegen`."""
    folder = make("go", ("go",), tmp_path / "checkout")
    have_a_job([str(folder / "generated" / "job")], folder, tmp_path)


def test_java(tmp_path: Path) -> None:
    """`openapi-generator`."""
    folder = make("java", ("javac", "mvn"), tmp_path / "checkout")
    have_a_job(["java", "-cp", "target/classes:target/lib/*", "shop.Job"], folder, tmp_path)
