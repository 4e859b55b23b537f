"""A story: a part that an instance holds is freed by a person, and goes to another instance."""

from typing import Any

from tests.faults.homes import Home
from tests.faults.processes import Caller, Run
from tests.faults.queued import is_empty
from tests.faults.stories import JOB, TERMINAL, check_tidy
from tests.faults.target import Target

STEP = {
    "url": "queue://work",
    "leaseSeconds": 300,
    "maxUnexpectedRetries": 5,
    "unexpectedRetryDelaySeconds": 0,
}
JOB_OF_ONE: dict[str, Any] = {
    "jobId": "job",
    "jobName": "freed",
    "creator": "1",
    "creatorName": "one",
    "timer": {"period": "external"},
    "request": [STEP],
    "timeoutSeconds": 3600,
    "qos": 1,
}


class Freed:
    """One part: `w1` claims it and hangs, it is freed, `w2` completes it. No lease ends by itself."""

    def __init__(self, target: Target) -> None:
        self._is_created = False
        self._execution = ""
        self._lost = ""
        self._has_asked = False
        self._is_freed = False
        self._has: list[Any] = []

    async def play(self, run: Caller) -> None:
        if not self._is_created:
            answer = await run.ask("POST", JOB, json=JOB_OF_ONE)
            assert answer.status_code in (200, 201), answer.text
            self._is_created = True
        if not self._execution:
            answer = await run.ask("POST", f"{JOB}/trigger", headers={"Idempotency-Key": "once"})
            assert answer.status_code == 200, answer.text
            self._execution = answer.json()["data"]["executionId"]
        if not self._is_freed:
            await self._free(run)
        if self._lost:
            late = await run.ask("POST", f"/leases/{self._lost}/renew", json={})
            assert late.status_code == 409, f"what was freed is held again: {late.text}"
        await run.until(lambda: self._work(run), "another instance has ended it")

    async def note(self, home: Home) -> None:
        """Nothing of the store is needed."""

    async def check(self, run: Run, home: Home) -> None:
        ended = await run.read(f"/executions/{self._execution}")
        assert (ended["state"], ended["attemptCount"]) == ("succeeded", 1), ended
        leases = [(one["instance"], one["what"]) for one in ended["attempts"][0]["leases"]]
        assert leases.count(("w1", "lost")) == 1, leases
        assert leases[:2] == [("w1", "claimed"), ("w1", "lost")], leases
        await run.until(lambda: is_empty(home.folder), "nothing is left in the queue")
        assert await run.terminate() == 0
        await check_tidy(home)

    async def _free(self, run: Caller) -> None:
        """The first lease is taken away; a claim or an answer that a crash cut off is asked for again."""
        is_held = await self._is_held(run)
        if not is_held and not self._has_asked:
            answer = await run.ask("POST", "/queues/work/claim", json={"instanceId": "w1"})
            self._lost = answer.json()["data"]["items"][0]["lease"]
        self._is_freed = self._has_asked and not is_held
        if not self._is_freed:
            self._has_asked = True
            await self._ask_free(run)
            self._is_freed = True

    async def _is_held(self, run: Caller) -> bool:
        found = (await run.ask("GET", "/queues/work")).json()["data"]
        return bool(found["held"])

    async def _work(self, run: Caller) -> bool:
        """`w2` claims and completes; what it was given with an answer that a crash cut off is freed, too."""
        if not self._has:
            answer = await run.ask("POST", "/queues/work/claim", json={"instanceId": "w2"})
            self._has = answer.json()["data"]["items"]
        for item in self._has:
            await run.ask("POST", f"/leases/{item['lease']}/complete", json={"status": "succeed"})
        if not self._has and await self._is_held(run):
            await self._ask_free(run)
        found = await run.ask("GET", f"/executions/{self._execution}")
        return found.status_code == 200 and found.json()["data"]["state"] in TERMINAL

    async def _ask_free(self, run: Caller) -> None:
        part = {"executionId": self._execution, "requestCounts": 1}
        answer = await run.ask("POST", "/queues/work/free", json=part)
        assert answer.status_code == 200, answer.text
