"""A canary in each place where a secret may stand: no file, line or answer of a service has it (14)."""

import base64
import json
import signal
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from client_sdk import BlockingClient
from scheduler_service.language.value_masks import forms_of
from tests.http_program import Asked, HttpProgram, Said
from tests.wire.processes.process import PATIENCE, Process, bare_environment, run, serve

CANARY, STORED, ENV = 'c4nary/"of the+shop&=%1', "st0red-canary-of-the-shop", "env-canary-of-the-shop"
STORED_NOWHERE = sorted(form for value in (CANARY, STORED) for form in forms_of(value))
SHOWN_NOWHERE = [*STORED_NOWHERE, *sorted(forms_of(ENV))]
KEY = base64.b64encode(bytes(range(7, 39))).decode()


def leaks(text: bytes, forms: list[bytes] = SHOWN_NOWHERE) -> list[bytes]:
    return [form for form in forms if form in text]


def settings(folder: Path) -> dict[str, str]:
    (folder / "secrets").mkdir(exist_ok=True)
    (folder / "secrets" / "CANARY").write_text(CANARY, encoding="utf-8")
    (folder / "key").write_text(KEY, encoding="utf-8")
    return {
        "PUNCTUAL_SECRETS_DIR": str(folder / "secrets"),
        "PUNCTUAL_SECRETS_KEY_FILE": str(folder / "key"),
        "PUNCTUAL_ENV__default__API_TOKEN": ENV,
        "PUNCTUAL_LOG__LEVEL": "debug",
        "PUNCTUAL_LOG__ACCESS": "true",
        "PUNCTUAL_SERVER__DRAIN_SECONDS": "0",
        "PUNCTUAL_NOTIFICATION__INTERVAL_SECONDS": "0.1",
    }


def job(target: str, **members: Any) -> dict[str, Any]:
    """Each request of it has the secrets; the first step hangs until the target lets it go."""
    named = {"headers": {"Authorization": "Bearer ${secrets.STORED}", "X-Own": "${secrets.CANARY}"}}
    body = {"a": "${secrets.CANARY}", "b": ["${secrets.STORED} ${API_TOKEN}"]}
    return {
        "jobId": "j", "jobName": "j", "creator": "1", "creatorName": "one", "qos": 1,
        "timer": {"period": "external"},
        "request": [{"url": f"{target}/step?k=${{secrets.CANARY}}", "body": body, **named}],
        "notification": [{"url": f"{target}/told?k=${{secrets.STORED}}", "body": body, **named}],
        **members,
    }  # fmt: skip


class EchoTarget(HttpProgram):
    """Holds calls until it is released; answers 500, with all that it got, later 200 with the same."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.released, self.called = threading.Event(), threading.Condition()
        super().__init__(self._echo)

    def _echo(self, asked: Asked) -> Said:
        headers = dict(asked.headers)
        with self.called:
            self.got.append((asked.path, headers, asked.body))
            self.called.notify_all()
        self.released.wait(PATIENCE)
        said = {"path": asked.path, "headers": headers, "body": asked.body.decode()}
        said |= {"message": f"wrong {CANARY} {STORED} {ENV}", "encoded": quote(CANARY, safe="")}
        return Said(200 if len(self.got) > 3 else 500, json.dumps(said).encode(), {"X-Echo": STORED})

    def wait_for(self, path: str, many: int) -> None:
        """Returns once there have been so many calls of a path."""

        def are_there() -> bool:
            return sum(one[0].startswith(path) for one in self.got) >= many

        with self.called:
            assert self.called.wait_for(are_there, PATIENCE)

    def close(self) -> None:
        """Releases all calls, and listens no more."""
        self.released.set()
        super().close()


def files(data: Path) -> bytes:
    """All that lies in the data folder."""
    return b"\n".join(path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file())


def said_by(process: Process) -> bytes:
    return "\n".join([*process.out, *process.err]).encode()


def read_all(url: str) -> bytes:
    """Each answer that shows something of the jobs."""
    with httpx.Client(base_url=url, timeout=30) as http:
        executions = [one["executionId"] for one in http.get("/executions").json()["data"]["items"]]
        paths = [
            "/jobs",
            "/jobs/j",
            "/jobs/j/revisions",
            "/executions",
            "/deliveries",
            "/settings",
            "/secrets",
        ]
        paths += ["/metrics", "/audit", "/nodes", "/statistics", "/alerts"]
        paths += [f"/executions/{one}{part}" for one in executions for part in ("", "/log")]
        answers = [http.get(path) for path in paths]
        assert [answer.status_code for answer in answers] == [200] * len(paths)
        return b"\n".join(answer.content for answer in answers)


def test_a_killed_service_leaves_no_byte_of_a_secret(tmp_path: Path) -> None:
    """With qos 1, failures, echoes, a notification that is tried again, and the log at debug."""
    data, environ = tmp_path / "data", settings(tmp_path)
    kept: list[bytes] = []
    with EchoTarget() as target:
        with (
            serve(data, "--workers", "2", **environ) as process,
            BlockingClient(process.wait_for_url()) as client,
        ):
            client.secrets.set("STORED", STORED)
            client.jobs.create(job(target.url))
            execution = client.jobs.trigger("j").execution_id
            target.wait_for("/step", 1)
            process.send(signal.SIGKILL)
            process.wait_for_exit()
            kept.append(said_by(process))
            assert leaks(files(data), STORED_NOWHERE) == []
        target.released.set()
        with (
            serve(data, "--workers", "2", **environ) as process,
            BlockingClient(url := process.wait_for_url()) as client,
        ):
            client.wait_for(execution, timeout=60)
            target.wait_for("/told", 3)
            kept.append(read_all(url))
            shown_by = ("executions", "get", execution)
            commands = (("jobs", "get", "j", "-o", "json"), shown_by, ("secrets", "list"))
            for command in commands:
                ended = run(*command, "--url", url, cwd=tmp_path)
                assert ended.returncode == 0, ended.stderr
                kept += [ended.stdout.encode(), ended.stderr.encode()]
            assert process.stop() == 0
            kept.append(said_by(process))
        shown = run("settings", cwd=tmp_path, environ=bare_environment(**environ))
        assert "API_TOKEN" in shown.stdout
        kept += [shown.stdout.encode(), shown.stderr.encode()]
        assert leaks(files(data), STORED_NOWHERE) == []
    first, again, *_ = [one for one in target.got if one[0].startswith("/step")]
    assert first[1]["Idempotency-Key"] == again[1]["Idempotency-Key"]
    assert json.loads(again[2]) == {"a": CANARY, "b": [f"{STORED} {ENV}"]}
    assert again[1]["Authorization"] == f"Bearer {STORED}"
    assert b"***" in b"".join(kept)
    assert [leaks(text) for text in kept] == [[] for _ in kept]
