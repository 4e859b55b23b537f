"""Two more stories: a life of operations by a caller, and a `one_time` job updated while it runs."""

from collections.abc import Sequence
from typing import Any

from tests.faults.homes import Home
from tests.faults.processes import Caller, Run
from tests.faults.stories import JOB, TERMINAL, Durable, check_requests, check_tidy, describe, in_full
from tests.faults.target import Target


class Operations:
    """Create, trigger, trigger later, update, pause, start, destroy, create again: each one counts once."""

    def __init__(self, target: Target) -> None:
        self._target = target
        base = {"timer": {"period": "external"}, "qos": 1, "request": [{"url": f"{target.url}/one"}]}
        plain = {**base, "async": False, "notification": [], "retry": []}
        self._first = _without_check(describe(target, **plain))
        self._second = self._first | {"jobName": "changed"}
        self._numbers: dict[str, int] = {}
        self._done = 0
        self._uids: set[str] = set()
        self._durable: list[tuple[int, Durable]] = []

    async def play(self, run: Caller) -> None:
        steps = (
            self._create, self._trigger_a, self._trigger_again, self._trigger_later, self._end_two,
            self._update, self._pause, self._activate, self._trigger_d, self._end_three, self._destroy,
            self._create_anew, self._trigger_e, self._end_four,
        )  # fmt: skip
        while self._done < len(steps):
            await steps[self._done](run)
            self._done += 1

    async def note(self, home: Home) -> None:
        self._durable.append((len(self._target.seen), await Durable.read(home)))

    async def check(self, run: Run, home: Home) -> None:
        executions = await in_full(run)
        job = await run.read(JOB)
        assert await run.terminate() == 0
        assert [one["executeNumber"] for one in executions] == [1, 2, 3, 4]
        assert {one["state"] for one in executions} == {"succeeded"}
        assert [one["revision"] for one in executions] == [1, 1, 2, 1]
        assert self._numbers == {"a": 1, "b": 2, "d": 3, "e": 4}
        assert (job["uid"] in self._uids, job["revision"], job["executeNumber"]) == (False, 1, 4)
        assert len({one.identity for one in self._target.to("/one")}) == 4
        check_requests(self._target.seen, self._durable)
        await check_tidy(home)

    async def _create(self, run: Caller) -> None:
        data = await _ask(run, "POST", JOB, (200, 201), json=self._first)
        self._uids.add((await _in_full(run, data))["uid"])

    async def _trigger_a(self, run: Caller) -> None:
        await self._trigger(run, "a")

    async def _trigger_again(self, run: Caller) -> None:
        await self._trigger(run, "a")

    async def _trigger_later(self, run: Caller) -> None:
        await self._trigger(run, "b", delaySeconds=0.3)

    async def _trigger_d(self, run: Caller) -> None:
        await self._trigger(run, "d")

    async def _trigger_e(self, run: Caller) -> None:
        await self._trigger(run, "e")

    async def _trigger(self, run: Caller, key: str, **query: Any) -> None:
        """Under its key it is the same execution, whoever asks how often over however many lives."""
        headers = {"Idempotency-Key": key}
        path = f"{JOB}/trigger"
        data = await _ask(run, "POST", path, (200,), json={"key": key}, headers=headers, params=query)
        assert self._numbers.setdefault(key, data["executeNumber"]) == data["executeNumber"]

    async def _update(self, run: Caller) -> None:
        headers = {"Idempotency-Key": "update"}
        data = await _ask(run, "POST", f"{JOB}/update", (200,), json=self._second, headers=headers)
        data = await _in_full(run, data)
        assert (data["revision"], data["jobName"]) == (2, "changed")

    async def _pause(self, run: Caller) -> None:
        data = await _ask(run, "PUT", JOB, (200,), params={"active": 0})
        assert (await _in_full(run, data))["state"] == "paused"

    async def _activate(self, run: Caller) -> None:
        assert (await run.read(JOB))["state"] in ("paused", "active")
        data = await _ask(run, "PUT", JOB, (200,), params={"active": 1})
        assert (await _in_full(run, data))["state"] == "active"

    async def _destroy(self, run: Caller) -> None:
        answer = await run.ask("DELETE", JOB)
        assert answer.status_code == 200 or (answer.status_code == 404 and self._durable), answer.text

    async def _create_anew(self, run: Caller) -> None:
        await _ask(run, "POST", JOB, (200, 201), json=self._first)

    async def _end_two(self, run: Caller) -> None:
        await self._end(run, 2)

    async def _end_three(self, run: Caller) -> None:
        await self._end(run, 3)

    async def _end_four(self, run: Caller) -> None:
        await self._end(run, 4)

    async def _end(self, run: Caller, count: int) -> None:
        async def is_done() -> bool:
            items: list[dict[str, Any]] = (await run.read(f"{JOB}/executions"))["items"]
            return len(items) == count and all(one["state"] in TERMINAL for one in items)

        await run.until(is_done, f"{count} executions have ended")


class Updated:
    """The target is slow until the update was answered; then both executions end, one after the other."""

    def __init__(self, target: Target, qos: int) -> None:
        self._target = target
        self._qos = qos
        self._gate = target.hold("/one")
        plain = {"async": False, "notification": [], "retry": [], "overlapPolicy": "skip", "checkUrl": None}
        step = {"url": f"{target.url}/one"}
        self._first = describe(target, timer=None, qos=qos, request=[step], **plain)
        self._second = self._first | {"jobName": "changed"}
        self._durable: list[tuple[int, Durable]] = []

    async def play(self, run: Caller) -> None:
        if not self._gate.is_set():
            await self._update(run)
        await run.until(lambda: self._is_done(run), "two executions have ended")

    async def note(self, home: Home) -> None:
        self._durable.append((len(self._target.seen), await Durable.read(home)))

    async def check(self, run: Run, home: Home) -> None:
        executions = await in_full(run)
        assert await run.terminate() == 0
        first, second = executions
        assert (first["revision"], second["revision"]) == (1, 2)
        lost = [one for one in executions if one["error"] == "lost"]
        assert len(lost) <= (self._qos == 0 and bool(self._durable))
        assert {one["state"] for one in executions if one not in lost} == {"succeeded"}
        assert second["startedAt"] >= first["endedAt"]
        if self._qos == 1:
            check_requests(self._target.seen, self._durable)
            await check_tidy(home)

    async def _update(self, run: Caller) -> None:
        """Creates the job and updates it once its first execution has been sent, then lets that end."""
        answer = await run.ask("POST", JOB, json=self._first)
        assert answer.status_code in (200, 201, 409), answer.text  # 409: it has been updated
        await run.until(lambda: self._has_begun(run), "the target was asked, or the execution is lost")
        headers = {"Idempotency-Key": "update"}
        answer = await run.ask("POST", f"{JOB}/update", json=self._second, headers=headers)
        assert answer.status_code == 200, answer.text
        self._gate.set()

    async def _has_begun(self, run: Caller) -> bool:
        items = (await run.read(f"{JOB}/executions"))["items"]
        return bool(self._target.to("/one")) or any(one["state"] in TERMINAL for one in items)

    async def _is_done(self, run: Caller) -> bool:
        items = (await run.read(f"{JOB}/executions"))["items"]
        return len(items) == 2 and all(one["state"] in TERMINAL for one in items)


async def _ask(
    run: Caller, method: str, path: str, statuses: Sequence[int], **options: Any
) -> dict[str, Any]:
    answer = await run.ask(method, path, **options)
    assert answer.status_code in statuses, (method, path, answer.text)
    data: dict[str, Any] = answer.json()["data"]
    return data


async def _in_full(run: Caller, data: dict[str, Any]) -> dict[str, Any]:
    """The job that was changed: where its store went away after that, the answer names it alone."""
    return data if "state" in data else await run.read(JOB)


def _without_check(definition: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in definition.items() if name != "checkUrl"}
