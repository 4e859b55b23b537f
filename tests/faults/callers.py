"""Two more stories: a job whose target decides by feedback, and a life of operations by a caller."""

import json
from collections.abc import Sequence
from typing import Any

import httpx

from tests.faults.homes import Home
from tests.faults.processes import Caller, Run
from tests.faults.stories import JOB, TERMINAL, Durable, check_requests, check_tidy, describe, in_full
from tests.faults.target import Target

PROGRESS = {"status": "", "progress": "1/2"}
DONE = {"status": "succeed", "progress": "2/2"}


class Feedback:
    """A qos 1 job that waits for feedback; the target repeats a report until it is accepted, not after."""

    def __init__(self, target: Target) -> None:
        self._target = target
        step = {"url": f"{target.url}/one", "body": {"report": "${schedulingFeedbackUrl}"}}
        self._definition = describe(target, qos=1, request=[step], timer={})
        del self._definition["checkUrl"]
        self._created = False
        self._left = [PROGRESS, DONE]
        self._durable: list[tuple[int, Durable]] = []

    async def play(self, run: Caller) -> None:
        if not self._created:
            answer = await run.ask("POST", JOB, json=self._definition)
            assert answer.status_code in (200, 201), answer.text
            self._created = True
        await run.until(self._is_asked, "the target was asked")
        url = httpx.URL(json.loads(self._target.to("/one")[0].body)["report"])
        while self._left:
            answer = await run.ask("POST", url.raw_path.decode(), json=self._left[0])
            assert answer.status_code == 200, answer.text
            del self._left[0]
        await run.until(lambda: self._is_done(run), "the execution has ended as its feedback says")

    async def note(self, home: Home) -> None:
        self._durable.append((len(self._target.seen), await Durable.read(home)))

    async def check(self, run: Run, home: Home) -> None:
        executions = await in_full(run)
        assert await run.terminate() == 0
        assert [(one["state"], one["attemptCount"]) for one in executions] == [("succeeded", 1)]
        reports = [one["body"]["progress"] for one in executions[0]["attempts"][0]["feedback"]]
        # One that was taken by a process that died before it said so is reported again, and kept again.
        assert list(dict.fromkeys(reports)) == ["1/2", "2/2"], reports
        told = {one["event"] for one in executions[0]["notifications"]}
        assert told == {"inprogress", "succeed", "finalSucceed"}
        check_requests(self._target.seen, self._durable)
        await check_tidy(home)

    async def _is_asked(self) -> bool:
        return bool(self._target.to("/one"))

    async def _is_done(self, run: Caller) -> bool:
        items = (await run.read(f"{JOB}/executions"))["items"]
        deliveries = (await run.read("/deliveries", jobId="job"))["items"]
        events = {one["event"] for one in deliveries if one["state"] == "delivered"}
        ended = all(one["state"] in TERMINAL for one in items)
        return ended and "finalSucceed" in events and all(one["state"] == "delivered" for one in deliveries)


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
