"""The port of the service: free, or who answers there; and what a running service says of itself."""

import socket
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import httpx

from client_sdk.trust import explain_tls, trusted
from scheduler_service import __version__
from scheduler_service.maintenance.doctor_findings import DoctorFinding, ExaminedPart, ExaminedService, ask
from scheduler_service.maintenance.doctor_folder import name_old_calendar, name_unfit
from scheduler_service.maintenance.doctor_machine import judge_difference

SERVICE = ExaminedPart("service")
CALENDARS = "/calendars?limit=10"
"""So few: each may have two thousand dates."""
SECONDS = 5.0
"""For one question to it."""


async def examine_service(subject: ExaminedService) -> list[DoctorFinding]:
    """Asks the service at `subject.url`, else at the address of the settings if its port is in use."""
    settings = subject.loaded.settings
    if subject.url is not None:
        return await _ask(subject.url.rstrip("/"), subject.key, subject.ca, is_expected=True)
    host, port = settings.server.host, settings.server.port
    found = _judge_app_port(subject) if subject.is_node else []
    if port == 0:
        return [*found, SERVICE.well("port", "the system gives a free one (server.port = 0)")]
    fault = try_binding(host, port)
    if fault is None:
        return [*found, SERVICE.well("port", f"{host}:{port} is free: no service is running there")]
    if not fault.startswith("Address already in use"):
        remedy = "name an address of this machine and a port that this user may use: --host, --port"
        return [*found, SERVICE.fail("port", f"{host}:{port}: {fault}", remedy)]
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - read, not listened on
    base = f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
    return [*found, *await _ask(base, subject.key or settings.server.key, None, is_expected=False)]


def try_binding(host: str, port: int) -> str | None:
    """What is in the way of listening there, in the system's words; None: nothing."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            return getattr(error, "strerror", None) or str(error)
    return None


def _judge_app_port(subject: ExaminedService) -> Sequence[DoctorFinding]:
    port = subject.loaded.settings.dapr.app_port
    fault = try_binding("127.0.0.1", port)
    if fault is None:
        return [SERVICE.well("app port", f"127.0.0.1:{port} is free for daprd's calls")]
    return [SERVICE.well("app port", f"127.0.0.1:{port} is in use, by a running node if its API answers")]


async def _ask(base: str, key: str | None, ca: str | None, *, is_expected: bool) -> list[DoctorFinding]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        trust = trusted(ca)
        async with httpx.AsyncClient(base_url=base, timeout=SECONDS, trust_env=False, verify=trust) as client:
            began = time.time()
            alive = await ask(client, "/health/live")  # without the key: who answers is not known yet
            between = began, time.time()
            health = _data_of(alive)
            if "version" not in health:
                return [_judge_stranger(base, alive)]
            ready = await ask(client, "/health/ready")
            known = await ask(client, "/nodes", headers=headers)
            counted = await ask(client, "/counts/jobs", headers=headers)
            listed = await ask(client, CALENDARS, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        said = explain_tls(error, ca="punctual --ca FILE, PUNCTUAL_CA") or str(error) or type(error).__name__
        if not is_expected:
            said = f"the port is in use, and what listens there does not answer ({said})"
        remedy = "start it with 'punctual serve', or end what uses the port, or name another --url or --port"
        return [SERVICE.fail("answer", f"{base}: {said}", remedy)]
    return [
        SERVICE.well("answer", f"Punctual {health['version']} answers at {base}"),
        _judge_version(str(health["version"])),
        _judge_ready(ready),
        _judge_key(known, bool(key)),
        *_judge_date(alive, between),
        *_name_unfit(_data_of(counted)),
        *_name_old_calendars(listed),
    ]


def _name_old_calendars(answer: httpx.Response) -> Sequence[DoctorFinding]:
    """Those of the caller's tenant that list no day of the current year, of the first ones."""
    items, warnings = _data_of(answer).get("items", ()), _json_of(answer).get("warnings", ())
    placed = ((str(one["pointer"]).split("/"), str(one["message"])) for one in warnings)
    named = ((str(items[int(place[2])]["name"]), said) for place, said in placed)
    return [name_old_calendar(SERVICE, name, said.removeprefix(f"{name}: ")) for name, said in named]


def _name_unfit(counts: dict[str, Any]) -> Sequence[DoctorFinding]:
    named = [(str(one["jobId"]), str(one["problem"])) for one in counts.get("cannotRunJobs", ())]
    more = int(counts.get("cannotRun", 0)) - len(named)
    return name_unfit(SERVICE, named, more, "the log names them: job_blocked")


def _judge_stranger(base: str, answer: httpx.Response) -> DoctorFinding:
    server = answer.headers.get("server", "without a name")[:80]
    detail = f"something else answers at {base} (status {answer.status_code}, server {server!r})"
    if answer.status_code == HTTPStatus.FORBIDDEN:
        detail += "; a service without a key answers this machine's own names alone"
    return SERVICE.fail("answer", detail, "end what uses the port, or name another --port or --url")


def _judge_version(version: str) -> DoctorFinding:
    if version != __version__:
        detail = f"the service has {version}, this command {__version__}"
        return SERVICE.warn("version", detail, "use the command of the same version")
    return SERVICE.well("version", "that of this command")


def _judge_ready(answer: httpx.Response) -> DoctorFinding:
    if answer.status_code == HTTPStatus.OK:
        return SERVICE.well("ready", "it accepts work")
    said = str(_json_of(answer).get("detail", f"status {answer.status_code}"))
    return SERVICE.fail("ready", said, "wait for the end of its start; else its log says what is missing")


def _judge_key(answer: httpx.Response, is_given: bool) -> DoctorFinding:
    if answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        what = "the key is not accepted" if is_given else "it asks for a key"
        return SERVICE.warn("key", what, "give the right one with --key or PUNCTUAL_KEY")
    return SERVICE.well("key", "this caller is served")


def _judge_date(answer: httpx.Response, between: tuple[float, float]) -> Sequence[DoctorFinding]:
    """The header has whole seconds."""
    try:
        theirs = parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return []
    return [judge_difference("the service", theirs, between, resolution=1.0)]


def _data_of(answer: httpx.Response) -> dict[str, Any]:
    data = _json_of(answer).get("data")
    return data if isinstance(data, dict) else {}


def _json_of(answer: httpx.Response) -> dict[str, Any]:
    try:
        value = answer.json()
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
