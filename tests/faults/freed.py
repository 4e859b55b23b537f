"""A story: a part that an instance holds is freed by a person, and goes to another instance."""

from typing import Any

from tests.faults.homes import Home
from tests.faults.processes import Caller, Run
from tests.faults.queued import is_empty
from tests.faults.stories import OneExecution, check_tidy
from tests.faults.target import Target

STEP = {
    "url": "queue://work",
    "leaseSeconds": 300,
    "maxUnexpectedRetries": 5,
    "unexpectedRetryDelaySeconds": 0,
}


class Freed(OneExecution):
    """One part: `w1` claims it and hangs, it is freed, `w2` completes it. No lease ends by itself."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, qos=1, request=[STEP], timeoutSeconds=3600)
        self._lost = ""
        self._has_asked = False
        self._is_freed = False
        self._has: list[Any] = []

    async def begin(self, run: Caller) -> None:
        await super().begin(run)
        if not self._is_freed:
            await self._free(run)
        if self._lost:
            late = await run.ask("POST", f"/leases/{self._lost}/renew", json={})
            assert late.status_code == 409, f"what was freed is held again: {late.text}"

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

    async def is_done(self, run: Caller) -> bool:
        """`w2` claims and completes; what it was given with an answer that a crash cut off is freed, too."""
        if not self._has:
            answer = await run.ask("POST", "/queues/work/claim", json={"instanceId": "w2"})
            self._has = answer.json()["data"]["items"]
        for item in self._has:
            await run.ask("POST", f"/leases/{item['lease']}/complete", json={"status": "succeed"})
        if not self._has and await self._is_held(run):
            await self._ask_free(run)
        return await self.has_ended(run)

    async def _ask_free(self, run: Caller) -> None:
        part = {"executionId": self._execution, "requestCounts": 1}
        answer = await run.ask("POST", "/queues/work/free", json=part)
        assert answer.status_code == 200, answer.text
