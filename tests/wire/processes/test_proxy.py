"""nginx with the lines of docs/how-do-i.md in front of a real service, for signing in and streams."""

import grp
import os
import pwd
import shutil
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.certificate import Certificate, make_certificate
from tests.ports import free_port
from tests.unit.docs.pages import fences, prose, read
from tests.wire.processes.process import COMMAND, Process, bare_environment

PAGE = "docs/how-do-i.md"
SERVICE = "http://127.0.0.1:8000"
KEY = "0123456789abcdef"
MARK = {"X-Punctual-Console": "1"}
TIMER = {"period": "external"}
# One process of the tests' own user, with all of its files in its folder.
CONFIGURATION = """
user %s %s; daemon off; master_process off; pid nginx.pid; error_log stderr notice; events {}
http {
    access_log off; client_body_temp_path body; proxy_temp_path proxy;
    fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server { listen %s; %s
%s
    }
}
"""


def block() -> str:
    """The lines of the page."""
    (found,) = [body for body in fences(read(PAGE), "text") if "# nginx" in body]
    return found


def below_tools() -> str:
    """The lines of the page, as it says that they are below a path."""
    said = prose(read(PAGE))
    for place in ("location /tools/ { proxy_pass http://127.0.0.1:8000/; …", "X-Forwarded-Prefix /tools;"):
        assert place in said
    changed = block().replace("location / {", "location /tools/ {").replace(f"{SERVICE};", f"{SERVICE}/;")
    return changed.replace("{", "{ proxy_set_header X-Forwarded-Prefix /tools;", 1)


def saying_nothing() -> str:
    """A proxy that says neither under which name nor over which protocol the browser came."""
    lines = block().splitlines()
    return "\n".join(line for line in lines if " Host " not in line and "X-Forwarded-Proto" not in line)


@contextmanager
def nginx(folder: Path, port: str, lines: str, certificate: Certificate | None) -> Iterator[None]:
    """nginx on `port`, for TLS where it has a certificate."""
    path = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin"
    program = shutil.which("nginx", path=path)
    if program is None:
        pytest.skip("nginx is missing (Debian, Ubuntu: apt-get install nginx-light)")
    listen, tls = f"127.0.0.1:{port}", ""
    if certificate is not None:
        listen += " ssl"
        tls = f"ssl_certificate {certificate.path}; ssl_certificate_key {certificate.key};"
    user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    (folder / "nginx.conf").write_text(CONFIGURATION % (user, group, listen, tls, lines))
    command = [program, "-e", "stderr", "-p", str(folder), "-c", "nginx.conf"]
    with Process(command, cwd=folder, environ=bare_environment()) as process:
        process.wait_for_line("event method")  # it listens before it says so
        yield


@contextmanager
def behind(folder: Path, lines: str, *, path: str = "", is_tls: bool = True) -> Iterator[httpx.Client]:
    """A browser's way to a service behind nginx with these lines, on a port other than 443 and 80."""
    port, inner = str(free_port()), str(free_port())
    certificate = make_certificate(folder) if is_tls else None
    outer = f"{'https' if is_tls else 'http'}://127.0.0.1:{port}"
    settings = {"PUNCTUAL_SERVER__KEY": KEY, "PUNCTUAL_SERVER__EXTERNAL_URL": f"{outer}{path}"}
    trust = ssl.create_default_context(cafile=str(certificate.path)) if certificate else True
    arguments = [*COMMAND, "serve", "--port", inner, "--data", "data"]
    with Process(arguments, cwd=folder, environ=bare_environment(**settings)) as service:
        assert service.wait_for_url() == f"{outer}{path}"
        own = lines.replace(SERVICE, f"http://127.0.0.1:{inner}")
        with (
            nginx(folder, port, own, certificate),
            httpx.Client(
                base_url=f"{outer}{path}", headers={"Origin": outer}, verify=trust, trust_env=False
            ) as client,
        ):
            yield client
        assert service.stop() == 0


def sign_in(client: httpx.Client, key: str = KEY) -> httpx.Response:
    """As the console's page does."""
    return client.post("/session", json={"key": key})


@pytest.mark.parametrize(("lines", "path"), [(block, ""), (below_tools, "/tools"), (saying_nothing, "")])
def test_the_console_works_behind_nginx(tmp_path: Path, lines: Callable[[], str], path: str) -> None:
    """Signing in on any port, a cookie for TLS alone, and events at once, as the page says."""
    with behind(tmp_path, lines(), path=path) as client:
        assert f'"{path}/' in client.get("/console/").text
        signed = sign_in(client)
        assert signed.status_code == 200, signed.text
        parts = signed.headers["set-cookie"].split("; ")
        assert {"Secure", "HttpOnly", f"Path={path or '/'}"} <= set(parts)
        with client.stream("GET", "/events", params={"event": "jobCreated"}) as events:
            told = events.iter_lines()
            assert next(told).startswith("retry:")
            made = client.post("/jobs/one", json=definition("one"), headers=MARK)
            assert made.status_code == 201, made.text
            assert '"jobId":"one"' in next(line for line in told if line.startswith("data:"))
        assert client.delete("/session", headers=MARK).status_code == 200
        assert client.get("/jobs/one").status_code == 401


def test_a_foreign_page_is_refused_behind_nginx(tmp_path: Path) -> None:
    """Another port is another origin; http gives a cookie that a browser sends without TLS."""
    with behind(tmp_path, block(), is_tls=False) as client:
        foreign = client.post("/session", json={"key": KEY}, headers={"Origin": "http://127.0.0.1:1"})
        assert foreign.status_code == 403
        assert "Secure" not in sign_in(client).headers["set-cookie"].split("; ")


def test_wrong_keys_behind_nginx_keep_out_no_right_one(tmp_path: Path) -> None:
    """All callers have the proxy's address: more wrong keys are refused, a right one is not."""
    with behind(tmp_path, block()) as client:
        told = [sign_in(client, f"wrong {number}").status_code for number in range(12)]
        assert told == [401] * 10 + [429] * 2
        assert sign_in(client).status_code == 200


def test_a_large_array_of_jobs_gets_through_nginx(tmp_path: Path) -> None:
    """More than nginx lets pass of itself, 1 MiB."""
    with behind(tmp_path, block()) as client:
        many = [definition(f"job-{number}", "x" * 900_000) for number in range(3)]
        made = client.post("/jobs", json=many, headers={"Authorization": f"Bearer {KEY}"}, timeout=60)
        assert made.status_code == 200, made.text


def definition(job_id: str, body: str = "") -> dict[str, object]:
    """A job that only a caller starts."""
    step = {"url": "http://127.0.0.1:9/", "body": body}
    return {"jobId": job_id, "jobName": job_id, "creator": "1", "timer": TIMER, "request": [step]}
