"""The command line's way to a service: its REST API, and nothing else."""

import os
from typing import Any

import httpx

from scheduler_service.cli.errors import CommandError, Exit

DEFAULT_URL = "http://127.0.0.1:8000"
TIMEOUT = 30.0


class Connection:
    """One service. Every answer that is no success becomes a CommandError in words."""

    def __init__(self, *, url: str, key: str | None) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            self._client = httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT, trust_env=False)
        except (httpx.InvalidURL, ValueError) as error:
            raise CommandError(f"--url {url!r} is no address: {error}", Exit.USAGE) from error
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
        try:
            answer = self._client.request(method, path, params=given, json=body)
        except httpx.InvalidURL as error:
            raise CommandError(f"--url {self._url!r} is no address: {error}", Exit.USAGE) from error
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise CommandError(
                f"no service answers at {self._url} ({reason}); start one with 'punctual serve', "
                "or name another with --url or PUNCTUAL_URL",
                Exit.UNREACHABLE,
            ) from error
        return _read(answer)


def connect(url: str | None, key: str | None) -> Connection:
    """The service that `--url` and `--key`, else PUNCTUAL_URL and PUNCTUAL_KEY, name."""
    return Connection(
        url=url or os.environ.get("PUNCTUAL_URL") or DEFAULT_URL,
        key=key or os.environ.get("PUNCTUAL_KEY"),
    )


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
    code = Exit.UNREACHABLE if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE else Exit.REFUSED
    raise CommandError(describe_problem(body, answer.status_code), code)


def describe_problem(problem: dict[str, Any], status: int) -> str:
    """A problem document as lines for a person."""
    lines = [f"{status}: {problem.get('detail') or problem.get('title') or 'refused'}"]
    for error in problem.get("errors") or []:
        lines.append(f"  {error.get('pointer') or '/'}: {error.get('message')} [{error.get('code')}]")
    return "\n".join(lines)
