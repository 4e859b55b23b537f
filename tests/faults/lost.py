"""A story: an instance takes work in hand and is heard of no more."""

from tests.faults.homes import Home
from tests.faults.processes import Caller, Run
from tests.faults.stories import OneExecution, check_tidy, in_full
from tests.faults.target import Target

SETTINGS = {"services.offline_seconds": 1, "services.lost_after_seconds": 0.3}
INSTANCE = "/services/shop/instances/a"


class LostInstance(OneExecution):
    """One asynchronous execution; the instance sends heartbeats until it is called, and none after that."""

    def __init__(self, target: Target, qos: int) -> None:
        # A machine so slow that a heartbeat comes late loses no more than an attempt.
        retry = {"errorEquals": "no_instance", "intervalSeconds": 0.1, "backoffRate": 1, "maxAttempts": 500}
        told = {"url": f"{target.url}/told", "stateEquals": ["finalFailed"]}
        step = {"url": "service://shop/run"}
        members = {"request": [step], "async": True, "retry": [retry], "maxRetries": 500}
        super().__init__(target, qos, notification=[told], **members)

    async def play(self, run: Caller) -> None:
        await self._show_life(run)
        await super().play(run)

    async def check(self, run: Run, home: Home) -> None:
        (execution,) = await in_full(run)
        log = (await run.read(f"/executions/{self._execution}/log"))["items"]
        assert await run.terminate() == 0
        await check_tidy(home)
        assert execution["state"] == "terminated", execution
        *earlier, last = execution["attempts"]
        assert {one["error"] for one in earlier} <= {"no_instance"}, execution
        calls = self._target.to("/run")
        assert len({one.identity for one in calls}) <= 1, calls
        told = {one.key for one in self._target.to("/told")}
        assert len(told) <= 1, told
        if execution["error"] == "lost":
            assert self._qos == 0
            assert self._lives > 1
            return
        assert (execution["error"], last["error"]) == ("instance_lost", "instance_lost"), execution
        may_miss = self._qos == 0 and self._lives > 1
        assert len(calls) >= 1 - may_miss
        assert len(told) >= 1 - may_miss
        lines = [one for one in log if one["kind"] == "instance_lost"]
        assert len(lines) == 1 or (may_miss and not lines), log

    async def _show_life(self, run: Caller) -> None:
        if not self._target.to("/run"):
            answer = await run.ask("PUT", INSTANCE, json={"address": self._target.url})
            assert answer.status_code in (200, 201), answer.text

    async def is_done(self, run: Caller) -> bool:
        await self._show_life(run)
        return await super().is_done(run)
