"""The targets of all jobs: what was sent to them, what they answer, and what they do afterwards.

A target does the work of a call whose answer is lost. It knows calls by their `Idempotency-Key`, and does the
asynchronous work of an attempt once.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from random import Random
from urllib.parse import parse_qs, urlsplit

import msgspec

from scheduler_service.domain.moments import Now
from scheduler_service.domain.turn_events import FeedbackArrived
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, NotSent, Sender, always
from tests.simulation.faults import Risks, TargetTrouble, Troubles
from tests.simulation.loop import VirtualLoop, outside, set_once

HOOK = "hook"


class Seen(msgspec.Struct, frozen=True):
    """A request as it was sent: at which second of the world, by whom, and what the node's clock said then.

    `order` counts what happens in the world. `status` is what the target answered, whoever has heard of it
    (0: nothing), and `heard_at` when the node hears of it.
    """

    at: float
    order: int
    life: str
    now: Now
    request: OutboundRequest
    job_id: str
    path: str
    execution: int
    attempt: int
    key: str
    status: int
    heard_at: float | None

    @property
    def is_step(self) -> bool:
        """Whether it is a step of a chain."""
        return self.path.startswith("step")


class Work(msgspec.Struct):
    """The asynchronous work of an attempt."""

    ends_at: float
    verdict: str
    is_reported: bool = False


Report = Callable[[str, FeedbackArrived], Awaitable[None]]


class SimulatedTargets:
    """What all targets of a world have seen, and how they behave: by the job's own chances."""

    def __init__(
        self, *, loop: VirtualLoop, chance: Callable[[str], Random], troubles: Troubles, report: Report
    ) -> None:
        self._loop = loop
        self._chance = chance
        self._troubles = troubles
        self._report = report
        self._chances: dict[str, Random] = {}
        self._works: dict[tuple[str, int, int], Work] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.seen: list[Seen] = []
        self.is_calm = False

    @property
    def is_at_work(self) -> bool:
        """Whether a target has still to report."""
        return bool(self._tasks)

    def take(self, request: OutboundRequest, life: str, now: Now) -> tuple[float, Outcome]:
        """A request arrives: after how many seconds its sender hears what."""
        place = urlsplit(request.url)
        job_id, _, path = place.path.strip("/").partition("/")
        headers = dict(request.headers)
        is_hook = (place.hostname or "").startswith(HOOK)
        body = json.loads(request.body or b"{}") if is_hook else {}
        execution = int(headers.get("X-Scheduling-Execute-Number", body.get("executeNumber", 0)))
        attempt = int(headers.get("X-Scheduling-Request-Counts", body.get("requestCounts", 0)))
        chance = self._chances.setdefault(job_id, self._chance(f"target {job_id}"))
        outcome: Outcome | None
        if is_hook:
            pause, outcome = self._told(chance)
        elif path == "check":
            pause, outcome = self._checked(chance, (job_id, execution, attempt))
        else:
            pause, outcome = self._worked(chance, request, (job_id, execution, attempt))
        status = outcome.status if isinstance(outcome, Answer) else 0
        trouble = self._troubles.of(TargetTrouble)
        if trouble == "lost" or (not self.is_calm and chance.random() < 0.04):
            outcome = Fault(FaultKind.CONNECT, "the connection broke before an answer")
        if trouble == "slow":
            pause += chance.uniform(1, 10)
        if outcome is None or pause > request.timeout / 1_000:
            pause = request.timeout / 1_000
            outcome = Fault(FaultKind.TIMEOUT, "no answer within the timeout of the call")
        self.seen.append(
            Seen(
                at=self._loop.time(),
                order=self._loop.tick(),
                life=life,
                now=now,
                request=request,
                job_id=job_id,
                path=HOOK if is_hook else path,
                execution=execution,
                attempt=attempt,
                key=headers.get("Idempotency-Key", headers.get("webhook-id", "")),
                status=status,
                heard_at=self._loop.time() + pause if isinstance(outcome, Answer) else None,
            )
        )
        return pause, outcome

    def _told(self, chance: Random) -> tuple[float, Outcome]:
        is_well = self.is_calm or chance.random() < 0.8
        return chance.choice((0.001, 0.02, 0.4)), Answer(200 if is_well else 503, body=b"{}")

    def _worked(
        self, chance: Random, request: OutboundRequest, attempt: tuple[str, int, int]
    ) -> tuple[float, Outcome | None]:
        pause = chance.choice((0.0005, 0.003, 0.02, 0.3, 1.5))
        draw = 1.0 if self.is_calm else chance.random()
        if self._troubles.of(TargetTrouble) == "failing" or draw < 0.08:
            return pause, Answer(500, body=b'{"message": "it broke"}')
        if draw < 0.1:
            return pause, None
        if draw < 0.13:
            return pause, Answer(404, body=b"{}")
        known = self._works.get(attempt)
        if known is None:
            verdict = "failed" if draw < 0.3 else "succeed"
            known = self._works[attempt] = Work(self._loop.time() + chance.choice((0.01, 0.4, 3)), verdict)
        feedback = json.loads(request.body or b"{}").get("feedback")
        if feedback and not known.is_reported:
            known.is_reported = True
            self._begin(self._feed_back(attempt[0], feedback, known))
        return pause, Answer(200, body=json.dumps({"value": f"of {attempt}"}).encode())

    def _checked(self, chance: Random, attempt: tuple[str, int, int]) -> tuple[float, Outcome]:
        work = self._works.get(attempt)
        if work is None or self._loop.time() < work.ends_at:
            return 0.001, Answer(200, body=b'{"status": "", "progress": "1/3"}')
        return 0.001, Answer(200, body=json.dumps({"status": work.verdict, "error": "E7"}).encode())

    async def _feed_back(self, job_id: str, url: str, work: Work) -> None:
        await asyncio.sleep(max(work.ends_at - self._loop.time(), 0))
        place = urlsplit(url)
        token = parse_qs(place.query)["token"][0]
        counts = int(place.path.rpartition("/")[2])
        await self._report(job_id, FeedbackArrived(counts, token, {"status": work.verdict, "error": "E7"}))

    def _begin(self, work: Awaitable[None]) -> None:
        """In nobody's process: a target goes on whoever dies."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class SimulatedSender(Sender):
    """What one process sends."""

    def __init__(self, *, targets: SimulatedTargets, risks: Risks, now: Callable[[], Now]) -> None:
        self._targets = targets
        self._risks = risks
        self._now = now
        self._loop = risks.process.loop

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        began = self._loop.time()
        await asyncio.sleep(self._risks.chance.choice((0.0, 0.0003, 0.005)))
        await self._risks.pass_by("before send")
        if self._risks.troubles.of(TargetTrouble) == "refused":
            return Fault(FaultKind.CONNECT, "refused", unsent=True)
        if not may_go():
            raise NotSent
        answer: asyncio.Future[Outcome] = self._loop.create_future()
        outside(lambda: self._answer(request, answer))
        outcome = await answer
        await self._risks.pass_by("after send")
        elapsed = round((self._loop.time() - began) * 1_000)
        return msgspec.structs.replace(outcome, elapsed=elapsed)

    def _answer(self, request: OutboundRequest, answer: "asyncio.Future[Outcome]") -> None:
        pause, outcome = self._targets.take(request, self._risks.process.name, self._now())
        self._loop.call_later(pause, set_once, answer, outcome)

    async def close(self) -> None:
        """Nothing is held open."""
