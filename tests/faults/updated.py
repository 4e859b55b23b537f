"""A story: a `one_time` job is updated while its execution runs."""

from tests.faults.homes import Home
from tests.faults.processes import Caller, Run
from tests.faults.stories import JOB, TERMINAL, Durable, check_requests, check_tidy, describe, in_full
from tests.faults.target import Target


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
