"""Work in a queue: two instances claim, renew and complete its parts, over as many lives as it takes."""

import json
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.faults.homes import Home
from tests.faults.processes import Caller, Run
from tests.faults.stories import JOB, TERMINAL, check_tidy
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


class Queued:
    """One execution: a step of two parts, then a call that is given what they came to.

    Its job is created and triggered once, over as many lives as it takes.
    """

    def __init__(self, target: Target, qos: int) -> None:
        self._target = target
        self._qos = qos
        after = {"url": f"{target.url}/one", "body": {"parts": "${PARTS}|json"}}
        self._definition = {
            "jobId": "job", "jobName": "one", "creator": "1", "creatorName": "one", "qos": qos,
            "timer": {"period": "external"}, "timeoutSeconds": 120, "request": [STEP, after],
        }  # fmt: skip
        self._is_created = False
        self._execution = ""
        self._lives = 0
        self._held: dict[str, dict[str, Any]] = {}
        self._accepted: dict[int, set[str]] = defaultdict(set)

    async def play(self, run: Caller) -> None:
        self._lives += 1
        if not self._is_created:
            answer = await run.ask("POST", JOB, json=self._definition)
            assert answer.status_code in (200, 201), answer.text
            self._is_created = True
        if not self._execution:
            answer = await run.ask("POST", f"{JOB}/trigger", headers={"Idempotency-Key": "once"})
            assert answer.status_code == 200, answer.text
            self._execution = answer.json()["data"]["executionId"]
        await run.until(lambda: self._is_done(run), "the execution has ended")

    async def note(self, home: Home) -> None:
        """Nothing of the store is needed: what the target was sent says it all."""

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

    async def _is_done(self, run: Caller) -> bool:
        """A round of both instances; whether the execution has ended."""
        for name in INSTANCES:
            if name not in self._held:
                answer = await run.ask("POST", "/queues/work/claim", json={"instanceId": name})
                assert answer.status_code == 200, answer.text
                items = answer.json()["data"]["items"]
                self._held |= dict(zip([name], items, strict=False))
            if name in self._held:
                await self._finish(run, name)
        found = await run.ask("GET", f"/executions/{self._execution}")
        return found.status_code == 200 and found.json()["data"]["state"] in TERMINAL

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


async def is_empty(folder: Path) -> bool:
    """Whether no part is left in the queues of a service, be it running or not."""
    connection = sqlite3.connect(f"file:{folder / 'state.db'}?mode=ro", uri=True)
    try:
        return bool(connection.execute("SELECT count(*) FROM queue_parts").fetchone()[0] == 0)
    finally:
        connection.close()
