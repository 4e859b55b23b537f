"""The command line's way to a service: its REST API, and nothing else."""

import json
import os
from typing import Any

import httpx

from scheduler_service.cli.errors import AbsentError, CommandError, Exit

DEFAULT_URL = "http://127.0.0.1:8000"
TIMEOUT = 30.0
# A command asks little and ends: each connection is closed with its answer.
NOTHING_OPEN = httpx.Limits(max_keepalive_connections=0)


class ApiConnection:
    """One service. Every answer that is no success becomes a CommandError in words."""

    def __init__(self, *, url: str, key: str | None) -> None:
        if key and not (key.isascii() and key.isprintable()):
            raise CommandError("the API key has characters that no key has; look at --key", Exit.USAGE)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            self._client = httpx.Client(
                base_url=url, headers=headers, timeout=TIMEOUT, trust_env=False, limits=NOTHING_OPEN
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise _no_address(url, str(error)) from error
        if self._client.base_url.scheme not in ("http", "https") or not self._client.base_url.host:
            raise _no_address(url, "write http://HOST:PORT")
        self._url = url

    def get(self, path: str, **query: Any) -> Any:
        """The `data` of a GET; query members that are None are left out."""
        return self.send("GET", path, query=query)

    def send(self, method: str, path: str, *, query: dict[str, Any] | None = None, body: Any = None) -> Any:
        """The `data` of an answer. Raises CommandError."""
        return self.exchange(method, path, query=query, body=body).get("data")

    def exchange(
        self, method: str, path: str, *, query: dict[str, Any] | None = None, body: Any = None
    ) -> dict[str, Any]:
        """The whole envelope of an answer, warnings included. Raises CommandError."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if content else {}
        try:
            answer = self._client.request(method, path, params=given, content=content, headers=headers)
        except httpx.InvalidURL as error:
            raise _no_address(self._url, str(error)) from error
        except httpx.RequestError as error:
            reason = str(error) or type(error).__name__
            raise CommandError(
                f"no service answers at {self._url} ({reason}); start one with 'punctual serve', "
                "or name another with --url or PUNCTUAL_URL",
                Exit.UNREACHABLE,
            ) from error
        return _read(answer)


def connect(url: str | None, key: str | None) -> ApiConnection:
    """The service that `--url` and `--key`, else PUNCTUAL_URL and PUNCTUAL_KEY, name."""
    return ApiConnection(
        url=url or os.environ.get("PUNCTUAL_URL") or DEFAULT_URL,
        key=key or os.environ.get("PUNCTUAL_KEY"),
    )


def _no_address(url: str, reason: str) -> CommandError:
    return CommandError(f"--url {url!r} is no address: {reason}", Exit.USAGE)


def _read(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise CommandError(
            f"{answer.request.url} answered {answer.status_code}, but no JSON", Exit.UNREACHABLE
        )
    if answer.is_success:
        return body
    if answer.status_code == httpx.codes.NOT_FOUND:
        raise AbsentError(describe_problem(body, answer.status_code))
    code = Exit.UNREACHABLE if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE else Exit.REFUSED
    raise CommandError(describe_problem(body, answer.status_code), code)


def describe_problem(problem: dict[str, Any], status: int) -> str:
    """A problem document as lines for a person."""
    lines = [f"{status}: {problem.get('detail') or problem.get('title') or 'refused'}"]
    lines.extend(
        f"  {error.get('pointer') or '/'}: {error.get('message')} [{error.get('code')}]"
        for error in problem.get("errors") or []
    )
    return "\n".join(lines)
