"""The demo's target and jobs: a chain of two steps, an asynchronous job with a check, one that retries."""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
CREATOR = {"creator": "demo", "creatorName": "Punctual demo"}
CHECKS_UNTIL_DONE = 3
FAILURES_BEFORE_SUCCESS = 2


def demo_jobs(target: str) -> list[dict[str, Any]]:
    """The definitions, with requests to `target` (a base address)."""
    return [_chain(target), _report(target), _flaky(target)]


class DemoTarget:
    """Answers the demo jobs: `/price`, `/order`, `/report` (takes a while), `/flaky` and `/notified`."""

    def __init__(self) -> None:
        self._checks: dict[str, int] = {}
        self._tries: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI call."""
        if scope["type"] != "http":
            return
        await read_body(receive)
        await answer_json(send, *self._answer(scope["path"]))

    def _answer(self, path: str) -> tuple[int, dict[str, Any]]:
        _, _, rest = path.partition("/")
        place, _, argument = rest.partition("/")
        match place:
            case "price":
                return 200, {"article": "tea", "price": 4.2, "currency": "EUR"}
            case "order":
                return 200, {"ordered": True}
            case "report":
                return self._report(argument) if argument else (202, {"accepted": True})
            case "flaky":
                return self._flaky(argument)
            case "notified":
                return 200, {}
            case _:
                return 404, {"error": f"the demo target has no {path}"}

    def _report(self, number: str) -> tuple[int, dict[str, Any]]:
        done = self._checks[number] = self._checks.get(number, 0) + 1
        status = "succeed" if done >= CHECKS_UNTIL_DONE else ""
        return 200, {"status": status, "progress": f"{done}/{CHECKS_UNTIL_DONE}"}

    def _flaky(self, number: str) -> tuple[int, dict[str, Any]]:
        tries = self._tries[number] = self._tries.get(number, 0) + 1
        if tries <= FAILURES_BEFORE_SUCCESS:
            return 503, {"error": "try again", "tries": tries}
        return 200, {"tries": tries}


def _chain(target: str) -> dict[str, Any]:
    return {
        "jobId": "demo-chain",
        "jobName": "Price, then order",
        **CREATOR,
        "timer": {"dueTime": "0s", "period": "5s"},
        "request": [
            {"method": "GET", "url": f"{target}/price", "respEnvName": "PRICE"},
            {
                "method": "POST",
                "url": f"{target}/order?article=${{PRICE.article}}",
                "body": {"price": "${PRICE.price}|json", "job": "${schedulingJobId}"},
            },
        ],
    }


def _report(target: str) -> dict[str, Any]:
    return {
        "jobId": "demo-report",
        "jobName": "A long report with progress checks",
        **CREATOR,
        "timer": {"dueTime": "1s", "period": "10s"},
        "async": True,
        "qos": 1,
        "request": [{"method": "POST", "url": f"{target}/report"}],
        "checkUrl": f"{target}/report/${{schedulingExecuteNumber}}",
        "checkRateSeconds": 1,
        "notification": [{"url": f"{target}/notified", "stateEquals": ["finalSucceed", "finalFailed"]}],
    }


def _flaky(target: str) -> dict[str, Any]:
    return {
        "jobId": "demo-flaky",
        "jobName": "Fails twice, then succeeds",
        **CREATOR,
        "timer": {"dueTime": "2s", "period": "15s"},
        "request": [{"method": "POST", "url": f"{target}/flaky/${{schedulingExecuteNumber}}"}],
        "retry": [{"errorEquals": "5xx", "intervalSeconds": 1, "maxAttempts": 3, "backoffRate": 1.5}],
    }


async def read_body(receive: Receive) -> bytes:
    """The whole body of a request (ASGI)."""
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if not message.get("more_body"):
            return body


async def answer_json(send: Send, status: int, answer: dict[str, Any]) -> None:
    """Answers a request (ASGI)."""
    payload = json.dumps(answer).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(payload)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": payload})
