"""Work in a queue and at instances: claimed, renewed, completed, freed, lost and in vain, over many lives."""

import json
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.faults.homes import Home
from tests.faults.processes import Caller, Run
from tests.faults.stories import OneExecution, check_tidy, in_full
from tests.faults.target import Target

INSTANCES = ("w1", "w2")
STEP = {
    "url": "queue://work",
    "respEnvName": "PARTS",
    "parallelism": len(INSTANCES),
    "leaseSeconds": 2,
    "maxUnexpectedRetries": 100,
    "unexpectedRetryDelaySeconds": 0,
}


HELD = STEP | {"leaseSeconds": 300, "parallelism": 1}
BRIEF = {"url": "queue://work", "parallelism": 2, "queueTimeoutSeconds": 0.5}
LOSING = {
    "services.heartbeat_seconds": 0.5,
    "services.offline_seconds": 1,
    "services.lost_after_seconds": 0.3,
}
INSTANCE = "/services/shop/instances/a"


class Queued(OneExecution):
    """One execution: a step of two parts, then a call that is given what they came to."""

    def __init__(self, target: Target, qos: int) -> None:
        after = {"url": f"{target.url}/one", "body": {"parts": "${PARTS}|json"}}
        super().__init__(target, qos, request=[STEP, after])
        self._held: dict[str, dict[str, Any]] = {}
        self._accepted: dict[int, set[str]] = defaultdict(set)

    async def check(self, run: Run, home: Home) -> None:
        ended = await run.read(f"/executions/{self._execution}")
        # A lease of which nobody heard holds its part until it ends, though nobody awaits it any more.
        await run.until(lambda: is_empty(home.folder), "nothing is left in the queue")
        assert await run.terminate() == 0
        await check_tidy(home)
        calls = {one.identity: one.body for one in self._target.to("/one")}
        assert len(calls) <= 1
        assert all(len(leases) == 1 for leases in self._accepted.values()), self._accepted
        if ended["state"] == "succeeded":
            assert ended["attemptCount"] == 1
            assert [json.loads(body) for body in calls.values()] == [{"parts": [0, 1]}]
            parts = [one for one in ended["attempts"][0]["steps"] if one["part"] is not None]
            told = sorted(one["instance"] for one in parts)
            # With qos 0 a detail may die with the process that had not written it yet (SPEC section 8).
            may_miss = self._qos == 0 and self._lives > 1
            assert told == list(INSTANCES) or (may_miss and set(told) < set(INSTANCES)), ended
            claims = {(one["part"], one["instance"]) for one in ended["attempts"][0]["leases"]}
            assert may_miss or {(one["part"], one["instance"]) for one in parts} <= claims, ended
        else:
            assert (self._qos, ended["error"]) == (0, "lost"), ended
            assert self._lives > 1

    async def is_done(self, run: Caller) -> bool:
        """A round of both instances; whether the execution has ended."""
        for name in INSTANCES:
            if name not in self._held:
                answer = await run.ask("POST", "/queues/work/claim", json={"instanceId": name})
                assert answer.status_code == 200, answer.text
                items = answer.json()["data"]["items"]
                self._held |= dict(zip([name], items, strict=False))
            if name in self._held:
                await self._finish(run, name)
        return await self.has_ended(run)

    async def _finish(self, run: Caller, name: str) -> None:
        """Renews and completes; who hears that the lease is lost forgets about it."""
        item = self._held[name]
        path = f"/leases/{item['lease']}"
        for end, body in (("renew", {}), ("complete", {"status": "succeed", "data": item["shardIndex"]})):
            answer = await run.ask("POST", f"{path}/{end}", json=body)
            assert answer.status_code in (200, 409), answer.text
            if answer.status_code == 409:
                break
            if end == "complete":
                self._accepted[item["shardIndex"]].add(item["lease"])
        del self._held[name]


class Freed(OneExecution):
    """One part: `w1` claims it and hangs, it is freed, `w2` completes it. No lease ends by itself."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, qos=1, request=[HELD], timeoutSeconds=3600)
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


class Unclaimed(OneExecution):
    """One execution of two parts, which ends as `queue_timeout`."""

    def __init__(self, target: Target, qos: int) -> None:
        told = {"url": f"{target.url}/told", "stateEquals": ["finalFailed"]}
        super().__init__(target, qos, request=[BRIEF], notification=[told])

    async def check(self, run: Run, home: Home) -> None:
        (execution,) = await in_full(run)
        await run.until(lambda: is_empty(home.folder), "nothing is left in the queue")
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


async def is_empty(folder: Path) -> bool:
    """Whether no part is left in the queues of a service, be it running or not."""
    connection = sqlite3.connect(f"file:{folder / 'state.db'}?mode=ro", uri=True)
    try:
        return bool(connection.execute("SELECT count(*) FROM queue_parts").fetchone()[0] == 0)
    finally:
        connection.close()
