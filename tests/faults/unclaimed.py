"""A story: the parts of a queue step wait for a claim, and nobody claims them in time."""

from tests.faults.homes import Home
from tests.faults.processes import Caller, Run
from tests.faults.stories import OneExecution, check_tidy, in_full
from tests.faults.target import Target

STEP = {"url": "queue://work", "parallelism": 2, "queueTimeoutSeconds": 0.5}


class Unclaimed(OneExecution):
    """One execution of two parts, which ends as `queue_timeout`."""

    def __init__(self, target: Target, qos: int) -> None:
        told = {"url": f"{target.url}/told", "stateEquals": ["finalFailed"]}
        super().__init__(target, qos, request=[STEP], notification=[told])

    async def check(self, run: Run, home: Home) -> None:
        (execution,) = await in_full(run)
        await run.until(lambda: self._is_empty(run), "nothing is left in the queue")
        assert await run.terminate() == 0
        await check_tidy(home)
        told = {one.key for one in self._target.to("/told")}
        assert len(told) <= 1, told
        assert execution["state"] == "terminated", execution
        if execution["error"] == "lost":
            assert self._qos == 0
            assert self._lives > 1
            return
        (attempt,) = execution["attempts"]
        assert (execution["error"], attempt["error"]) == ("queue_timeout", "queue_timeout"), execution
        assert attempt["leases"] == []
        parts = [one["error"] for one in attempt["steps"] if one["part"] is not None]
        # With qos 0 a detail may die with the process that had not written it yet (SPEC section 8).
        may_miss = self._qos == 0 and self._lives > 1
        assert parts == ["queue_timeout"] * 2 or (may_miss and set(parts) <= {"queue_timeout"}), execution
        assert len(told) >= 1 - may_miss

    async def _is_empty(self, run: Caller) -> bool:
        found = await run.read("/queues/work")
        return bool((found["depth"], found["held"]) == (0, 0))
