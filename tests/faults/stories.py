"""What is done with a service, over as many lives as it takes, and what must be true at the end."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import httpx

from scheduler_service.domain.document import Calling, Checking
from scheduler_service.engine.document_bytes import decode
from scheduler_service.ports.state import OpenStore
from tests.faults.homes import Home
from tests.faults.processes import Caller, Run
from tests.faults.target import Seen, Target

TERMINAL = {"succeeded", "terminated", "cancelled", "skipped"}
STEPS = ("/one", "/two", "/three")
JOB = "/jobs/job"
PROGRESS = {"status": "", "progress": "1/2"}
DONE = {"status": "succeed", "progress": "2/2"}


class Story(Protocol):
    """A story goes on where a crash interrupted it: `play` is called again with the next life."""

    async def play(self, run: Caller) -> None:
        """Does what is left to do, and awaits its end. Raises Crashed when the service dies."""

    async def note(self, home: Home) -> None:
        """The service is dead: keeps in mind what was durable."""

    async def check(self, run: Run, home: Home) -> None:
        """The last life is up and all is done: ends it, and asserts the promises."""


def describe(target: Target, **members: Any) -> dict[str, Any]:
    """A job of three steps whose second one fails at first, with a check and notifications of everything."""
    base: dict[str, Any] = {
        "jobId": "job",
        "jobName": "swept",
        "creator": "1",
        "creatorName": "one",
        "timer": {"dueTime": "0s", "period": "R2/PT0.3S"},
        "overlapPolicy": "queue",
        "async": True,
        "request": [
            {"url": f"{target.url}/one", "body": {"fired": "${schedulingFireTime}"}, "respEnvName": "ONE"},
            {"url": f"{target.url}/two?article=${{ONE.value}}", "body": {"n": "${executeNumber}"}},
            {"url": f"{target.url}/three", "body": {"attempt": "${schedulingRequestCounts}"}},
        ],
        "checkUrl": f"{target.url}/check",
        "checkRateSeconds": 0.1,
        "timeoutSeconds": 30,
        "retry": [{"errorEquals": "5xx", "intervalSeconds": 0.05}],
        "notification": [{"url": f"{target.url}/told"}],
    }
    return base | members


class OneExecution:
    """A story of one execution: its job is created and triggered once, over as many lives as it takes."""

    def __init__(self, target: Target, qos: int, **members: Any) -> None:
        self._target = target
        self._qos = qos
        common = {"jobId": "job", "jobName": "one", "creator": "1", "creatorName": "one"}
        self._definition = (
            common | {"timer": {"period": "external"}, "timeoutSeconds": 120, "qos": qos} | members
        )
        self._is_created = False
        self._execution = ""
        self._lives = 0

    async def play(self, run: Caller) -> None:
        self._lives += 1
        await self.begin(run)
        await run.until(lambda: self.is_done(run), "the execution has ended")

    async def begin(self, run: Caller) -> None:
        """Has it created and triggered, where that is not answered yet."""
        if not self._is_created:
            answer = await run.ask("POST", JOB, json=self._definition)
            assert answer.status_code in (200, 201), answer.text
            self._is_created = True
        if not self._execution:
            answer = await run.ask("POST", f"{JOB}/trigger", headers={"Idempotency-Key": "once"})
            assert answer.status_code == 200, answer.text
            self._execution = answer.json()["data"]["executionId"]

    async def note(self, home: Home) -> None:
        """Nothing of the store is needed: what the target was sent says it all."""

    async def is_done(self, run: Caller) -> bool:
        """Whether it has ended, and was told of where that is promised."""
        return await self.has_ended(run) and (
            bool(self._target.to("/told")) or (self._qos == 0 and self._lives > 1)
        )

    async def has_ended(self, run: Caller) -> bool:
        found = await run.ask("GET", f"/executions/{self._execution}")
        return found.status_code == 200 and found.json()["data"]["state"] in TERMINAL


class Durable:
    """What a dead service left behind."""

    def __init__(self) -> None:
        self.calls: set[tuple[int, int, str]] = set()
        self.deliveries: set[str] = set()
        self.opens: set[int] = set()

    @classmethod
    async def read(cls, home: Home) -> "Durable":
        found = cls()
        async with home.open() as store:
            await found.take(store)
        return found

    async def take(self, store: OpenStore) -> None:
        self.deliveries = {one.delivery_id for one in await store.deliveries("", 500)}
        stored = await store.load("job")
        if stored is None or stored.document is None:
            return
        document = decode(stored.document)
        for run in document.head.opens:
            context = document.contexts.get(run.execute_number)
            self.opens.add(run.execute_number)
            match context.phase if context else None:
                case Calling(step=step):
                    self.calls.add((run.execute_number, run.request_counts, STEPS[step]))
                case Checking():
                    self.calls.add((run.execute_number, run.request_counts, "/check"))


class Sweep:
    """The job of `describe` with two planned firings and a trigger, at either qos."""

    def __init__(self, target: Target, qos: int) -> None:
        self._target = target
        self._qos = qos
        self._definition = describe(target, qos=qos)
        self._created = False
        self._triggered: int | None = None
        self._durable: list[tuple[int, Durable]] = []
        self._forgotten = range(0)

    async def play(self, run: Caller) -> None:
        if not self._created:
            answer = await run.ask("POST", JOB, json=self._definition)
            assert answer.status_code in (200, 201), answer.text
            self._created = True
        if self._triggered is None:
            answer = await run.ask(
                "POST", f"{JOB}/trigger", json={"by": "hand"}, headers={"Idempotency-Key": "once"}
            )
            assert answer.status_code == 200, answer.text
            self._triggered = answer.json()["data"]["executeNumber"]
        await run.until(lambda: self._is_done(run), "three executions have ended and been told of")

    async def note(self, home: Home) -> None:
        self._durable.append((len(self._target.seen), await Durable.read(home)))

    async def note_backup(self, seen: int, home: Home) -> None:
        """The same for a backup that was made when the target had got `seen` requests, before the death.

        What was sent since then is forgotten: it may be said again in other words.
        """
        self._durable.append((seen, await Durable.read(home)))
        self._forgotten = range(seen, len(self._target.seen))

    async def until_triggered(self, run: Caller) -> None:
        """Returns when nothing is left to do but to wait."""
        await run.until(self._has_triggered, "the job is triggered")

    async def _has_triggered(self) -> bool:
        return self._triggered is not None

    async def check(self, run: Run, home: Home) -> None:
        executions = await self.check_answers(run)
        assert await run.terminate() == 0
        numbered = enumerate(self._target.seen)
        check_requests([one for at, one in numbered if at not in self._forgotten], self._durable)
        if self._qos == 1:
            await check_tidy(home)
        else:
            self._check_lost(executions)

    async def check_answers(self, run: Caller) -> list[dict[str, Any]]:
        """What the service says when all is done; the executions."""
        again = await run.ask(
            "POST", f"{JOB}/trigger", json={"by": "hand"}, headers={"Idempotency-Key": "once"}
        )
        assert again.json()["data"]["executeNumber"] == self._triggered
        executions = await in_full(run)
        check_ledger((await run.read(f"{JOB}/firings"))["items"], executions)
        assert [one["executeNumber"] for one in executions] == [1, 2, 3]
        if self._qos == 1 or not self._durable:
            for execution in executions:
                check_whole(execution, self._target)
        return executions

    async def _is_done(self, run: Caller) -> bool:
        if self._qos == 1 and not all(map(self._finals, (1, 2, 3))):
            return False
        items = (await run.read(f"{JOB}/executions"))["items"]
        if len(items) < 3 or any(one["state"] not in TERMINAL for one in items):
            return False
        if any(self._must_be_told(one) and not self._finals(one["executeNumber"]) for one in items):
            return False
        deliveries = (await run.read("/deliveries", jobId="job"))["items"]
        may_be_lost = self._qos == 0 and bool(self._durable)
        return may_be_lost or all(one["state"] == "delivered" for one in deliveries)

    def _must_be_told(self, execution: dict[str, Any]) -> bool:
        """At qos 0 a notification lives in memory and may go down with its process: that of a loss too."""
        crashes = len(self._durable)
        return self._qos == 1 or crashes == 0 or (crashes == 1 and execution["state"] != "succeeded")

    def _finals(self, number: int) -> set[str]:
        told = [one for one in self._target.to("/told") if one.execution == number]
        found = {json.loads(one.body)["response"]["status"] for one in told}
        return found & {"finalSucceed", "finalFailed"}

    def _check_lost(self, executions: list[dict[str, Any]]) -> None:
        """At qos 0 nothing is sent twice; what a crash cut off is lost and told so, all else goes on."""
        for one in executions:
            number = one["executeNumber"]
            expected = {"finalSucceed" if one["state"] == "succeeded" else "finalFailed"}
            assert self._finals(number) <= expected
            assert self._finals(number) == expected or not self._must_be_told(one)
            if one["state"] != "succeeded":
                assert (one["state"], one["error"], one["failureType"]) == ("terminated", "lost", "lost"), one
                assert any(number in durable.opens for _, durable in self._durable)
        lost = [one for one in executions if one["state"] != "succeeded"]
        assert len(lost) <= len(self._durable)
        steps = Counter(one.identity for one in self._target.to(*STEPS, "/check"))
        assert max(steps.values()) == 1, steps.most_common(3)


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


def check_ledger(firings: list[dict[str, Any]], executions: list[dict[str, Any]]) -> None:
    """Both planned moments stand in it once, each with an execution of its own."""
    assert [one["outcome"] in ("fired", "late") for one in firings] == [True, True], firings
    assert len({one["plannedAt"] for one in firings}) == 2, firings
    planned = sorted(one["executionId"] for one in firings)
    assert planned == sorted(one["executionId"] for one in executions if one["triggeredBy"] == "timer")


def check_requests(seen: list[Seen], durable: list[tuple[int, Durable]]) -> None:
    """What was sent again is what a crash cut off, byte by byte; every key and number belongs together."""
    texts: dict[tuple[str, str, int], bytes] = {}
    for one in seen:
        assert texts.setdefault(one.identity, one.text) == one.text, (one.identity, one.text)
    check_numbers([one for one in seen if one.path in STEPS])
    for seen_before, left in durable:
        before = {one.identity for one in seen[:seen_before]}
        for one in seen[seen_before:]:
            if one.identity not in before:
                continue
            if one.path == "/told":
                assert one.key.removesuffix("-n") in left.deliveries, one
            else:
                assert (one.execution, one.attempt, one.path) in left.calls, (one, left.calls)


def check_numbers(steps: list[Seen]) -> None:
    """An attempt's number belongs to one execution, a key to one step of one execution, over all attempts."""
    owners: dict[int, int] = {}
    keys: dict[tuple[int, str], set[str]] = {}
    for one in steps:
        assert owners.setdefault(one.attempt, one.execution) == one.execution
        keys.setdefault((one.execution, one.path), set()).add(one.key)
    # The third step names its attempt, so its key has the attempt in it (SPEC section 4).
    assert all(len(found) == 1 for (_, path), found in keys.items() if path != "/three")
    assert len({key for found in keys.values() for key in found}) == sum(map(len, keys.values()))


def check_whole(execution: dict[str, Any], target: Target) -> None:
    """The execution ended as it should, each part of it in history once, each event delivered."""
    number = execution["executeNumber"]
    assert (execution["state"], execution["attemptCount"]) == ("succeeded", 2), execution
    first, second = execution["attempts"]
    assert [step["status"] for step in first["steps"]] == [200, 500]
    assert [step["status"] for step in second["steps"]] == [200, 200, 202]
    assert len(second["checks"]) == 2, second["checks"]
    assert not first["checks"]
    told = sorted(one["event"] for one in execution["notifications"])
    assert told == ["500", "finalSucceed", "inprogress", "succeed"], execution["notifications"]
    assert {one["state"] for one in execution["notifications"]} == {"delivered"}
    heard = {one.key for one in target.to("/told") if one.execution == number}
    assert len(heard) == 4


async def check_tidy(home: Home) -> None:
    """Nothing waits in the store any more: neither records for the history nor deliveries."""
    async with home.open() as store:
        assert await store.unwritten(("", 0), 10) == []
        assert await store.deliveries("", 10) == []
        assert await store.open_jobs("", 10, ()) == []


async def in_full(run: Caller) -> list[dict[str, Any]]:
    """Every execution of the job with its attempts, the first one first; each is counted once."""
    items = (await run.read(f"{JOB}/executions"))["items"]
    found = [await run.read(f"/executions/{one['executionId']}") for one in items]
    await check_counted(run, found)
    return sorted(found, key=lambda one: one["executeNumber"])


async def check_counted(run: Caller, executions: list[dict[str, Any]]) -> None:
    """Each execution is in the statistics once, however often a crash had its turns written (section 12)."""
    everybody = (await run.read("/executions", limit=500))["items"]
    # Named, for the service's clock may have been set to another day than that of the executions.
    today = datetime.now(UTC).date()
    span = {"from": str(today - timedelta(days=7)), "to": str(today + timedelta(days=2))}
    for path, counted in ((f"{JOB}/statistics", executions), ("/statistics", everybody)):
        total = (await run.read(path, **span))["total"]
        ended = [one for one in counted if one["state"] in TERMINAL]
        assert Counter(total["byOutcome"]) == Counter(one["state"] for one in ended), (path, total)
        assert total["attempts"] == sum(one["attemptCount"] for one in ended), (path, total)
