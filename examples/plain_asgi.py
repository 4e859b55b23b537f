"""A target without the SDK: a plain ASGI application with progress checks.

uvicorn examples.plain_asgi:app --port 9002

A job for it has a step `{"url": "http://127.0.0.1:9002/start"}`, `"async": true`, and the checkUrl
`http://127.0.0.1:9002/progress/${schedulingExecuteNumber}`. Each check finds another third done.
"""

import json
from collections import Counter
from typing import Any

STEPS = 3
checks: Counter[str] = Counter()


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Takes `POST /start` and `GET /progress/NUMBER`."""
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    await _read_body(receive)
    route = (scope["method"], scope["path"].rpartition("/")[0])
    if route == ("POST", ""):
        await _answer(send, 202, {"accepted": True})
    elif route == ("GET", "/progress"):
        await _answer(send, 200, _show_progress(scope["path"].rpartition("/")[2]))
    else:
        await _answer(send, 404, {"error": "POST /start or GET /progress/NUMBER"})


def _show_progress(number: str) -> dict[str, Any]:
    checks[number] += 1
    done = min(checks[number], STEPS)
    status = "succeed" if done == STEPS else ""
    return {"status": status, "progress": f"{done}/{STEPS}", "data": {"execution": number}}


async def _read_body(receive: Any) -> None:
    while (await receive()).get("more_body"):
        pass


async def _answer(send: Any, status: int, body: dict[str, Any]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
