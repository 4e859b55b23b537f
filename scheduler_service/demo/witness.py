"""A target that writes down what it gets, does each `Idempotency-Key` once, and holds one answer back."""

import asyncio
from typing import Any, NamedTuple

from scheduler_service.demo.demo_jobs import Receive, Scope, Send, answer_json, read_body

MADE_ANEW = frozenset({b"traceparent", b"x-scheduling-deadline"})
"""Headers that a request has anew when it is sent again (SPEC section 4)."""


class SeenRequest(NamedTuple):
    """A request: the last segment of its path, its key, and all of it but for `MADE_ANEW`."""

    step: str
    key: str
    content: bytes


class Witness:
    """Answers `POST …/STEP`; the first request for the step `held` gets no answer before `release`."""

    def __init__(self, *, held: str) -> None:
        self.seen: list[SeenRequest] = []
        self.done: list[str] = []
        self._held = held
        self._answers: dict[str, dict[str, Any]] = {}
        self._came = asyncio.Condition()
        self._gate = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI call."""
        if scope["type"] != "http":
            return
        one = _read_head(scope, await read_body(receive))
        is_first = one.key not in {other.key for other in self.seen}
        async with self._came:
            self.seen.append(one)
            self._came.notify_all()
        if one.step == self._held and is_first:
            await self._gate.wait()
        await answer_json(send, 200, self._do(one))

    async def wait_for(self, step: str, times: int) -> None:
        """Returns when so many requests for `step` have come."""
        async with self._came:
            await self._came.wait_for(lambda: self.count(step) >= times)

    def count(self, step: str) -> int:
        """How many requests for `step` have come."""
        return len(self.of(step))

    def of(self, step: str) -> list[SeenRequest]:
        """The requests for `step`, in the order in which they came."""
        return [one for one in self.seen if one.step == step]

    def release(self) -> None:
        """Lets go of the answer that is held; its caller may be gone."""
        self._gate.set()

    def _do(self, one: SeenRequest) -> dict[str, Any]:
        """Does it, or answers from memory what was done under this key."""
        if one.key not in self._answers:
            self.done.append(one.step)
            self._answers[one.key] = {"step": one.step, "number": len(self.done)}
        return self._answers[one.key]


def _read_head(scope: Scope, body: bytes) -> SeenRequest:
    headers = [(name, value) for name, value in scope["headers"] if name not in MADE_ANEW]
    path = scope["path"].encode() + b"?" + scope["query_string"]
    lines = [scope["method"].encode() + b" " + path, *(name + b": " + value for name, value in headers)]
    key = next((value for name, value in headers if name == b"idempotency-key"), b"")
    return SeenRequest(scope["path"].rpartition("/")[2], key.decode(), b"\r\n".join([*lines, b"", body]))
