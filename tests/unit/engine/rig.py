"""A job in a test's hand: events in, decisions out, a clock that jumps, nothing else."""

import json
from typing import Any, TypeVar

import msgspec

from client_sdk.models import parse_definition
from scheduler_service.domain.document import Context, Document, Head, Open
from scheduler_service.domain.effects import Call, CallPart, Delivery, Effect, Notify, ResolveInstances
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.moments import Now
from scheduler_service.domain.records import ExecutionRecord, FiringRecord, Record
from scheduler_service.domain.replies import ReachedLimit, Refusal, Reply
from scheduler_service.domain.step_parts import Chosen
from scheduler_service.domain.turn_events import (
    AlarmRang,
    CallEnded,
    Created,
    Event,
    FeedbackArrived,
    InstancesResolved,
    Resumed,
    Triggered,
)
from scheduler_service.domain.wire import Answer, Fault, FaultKind, Holder, OutboundRequest
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.decide import decide
from scheduler_service.engine.decision import Decision, Job
from scheduler_service.engine.document_bytes import decode, encode
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.engine.job_summary import Summary, due, summarize
from scheduler_service.engine.program import Program, Surroundings

START = 1_700_000_000_000  # 2023-11-14T22:13:20Z
STEADY = 5_000_000
SOME = TypeVar("SOME")


def definition(**members: Any) -> dict[str, Any]:
    """A small definition: one POST, fired from outside; `members` win."""
    base: dict[str, Any] = {
        "jobId": "job",
        "jobName": "a job",
        "creator": "1",
        "creatorName": "one",
        "timer": {"period": "external"},
        "request": [{"url": "http://target.test/run"}],
    }
    base.update(members)
    return base


def program(surroundings: Surroundings | None = None, *, system: bool = False, **members: Any) -> Program:
    """The program of `definition(**members)`; `system`: as one of the scheduler's own jobs."""
    read = parse_definition(definition(**members))
    return compile_definition(read, surroundings or Surroundings(), system=system).program


class Rig:
    """One job, its state and its clock."""

    def __init__(self, surroundings: Surroundings | None = None, **members: Any) -> None:
        self.wall = START
        self.steady = STEADY
        self.surroundings = surroundings
        self.holder = Holder("node", "boot-1")
        self.is_full = False
        self.held_back: ReachedLimit | None = None
        self.programs: dict[int, Program] = {1: program(surroundings, **members)}
        self.document: Document | None = None
        self.effects: list[Effect] = []
        self.records: list[Record] = []
        self.reply: Reply | None = None
        # Who answers a search for instances at once; None: the test does so itself.
        self.instances: tuple[Chosen, ...] | None = (Chosen("one", "http://one.test"),)

    @property
    def now(self) -> Now:
        """The present moment."""
        return Now(self.wall, self.steady)

    @property
    def job(self) -> Job:
        """The job as a turn would hold it."""
        return Job(self.document, self.programs, self.holder, self.is_full, self.held_back)

    def create(self, **values: Any) -> "Rig":
        """Delivers Created."""
        self.deliver(Created(uid="uid", key=b"key", **values))
        return self

    def triggered(self) -> "Rig":
        """Delivers Created, then Triggered."""
        self.create().deliver(Triggered())
        return self

    def without_instances(self) -> "Rig":
        """The test answers each search for instances itself."""
        self.instances = None
        return self

    def refusal(self, event: Event) -> Refusal:
        """Why the job refuses `event`."""
        reply = self.deliver(event).reply
        assert isinstance(reply, Refusal)
        return reply

    def deliver(self, event: Event) -> Decision:
        """One turn; keeps what it left."""
        decision = decide(self.job, event, self.now)
        assert decide(self.job, event, self.now) == decision, "decide is pure"
        self.document = decision.document
        self.effects.extend(decision.effects)
        self.records.extend(decision.records)
        self.reply = decision.reply
        for search in self.of(ResolveInstances, list(decision.effects)):
            if self.instances is not None:
                left = tuple(one for one in self.instances if one.instance not in search.excluded)
                self.deliver(InstancesResolved(search.token, left))
        return decision

    def resolve(self, *names: str, route: str = "random", wait: int = 0, paused: bool = False) -> Decision:
        """The newest search finds these instances; without any, one may be waited for `wait` ms."""
        search = self.of(ResolveInstances, self.effects)[-1]
        chosen = tuple(Chosen(name, f"http://{name}.test", vouched=True) for name in names)
        return self.deliver(InstancesResolved(search.token, chosen, route, wait, paused))

    def pass_time(self, milliseconds: int) -> None:
        """Both clocks run on, and the alarm rings whenever something is due on the way."""
        wall_end, steady_end = self.wall + milliseconds, self.steady + milliseconds
        for _ in range(10_000):
            wait = self.wait()
            if wait is None or self.wall + wait > wall_end:
                break
            self.wall += wait
            self.steady += wait
            self.deliver(AlarmRang())
        self.wall, self.steady = wall_end, steady_end

    def stand_still(self, milliseconds: int) -> None:
        """Both clocks run on, and no alarm rings."""
        self.wall += milliseconds
        self.steady += milliseconds

    def wait(self) -> int | None:
        """Milliseconds until the job is due; None: it waits for nothing."""
        at = due(self.job)
        waits = [at.wall - self.wall] if at.wall is not None else []
        waits += [at.steady - self.steady] if at.steady is not None else []
        return max(min(waits), 0) if waits else None

    def restart(self) -> None:
        """The process dies and another one takes over what was durable."""
        assert self.document is not None
        self.document = decode(encode(self.document))
        self.holder = Holder("node", f"boot-{int(self.holder.boot[5:]) + 1}")
        self.effects.clear()
        self.deliver(Resumed())

    def calls(self) -> list[Call | CallPart]:
        """Every request and check sent so far, the oldest first."""
        return [effect for effect in self.effects if isinstance(effect, (Call, CallPart))]

    @property
    def call(self) -> Call | CallPart:
        """The newest call."""
        return self.calls()[-1]

    @property
    def request(self) -> OutboundRequest:
        """The newest request."""
        return self.call.request

    def sent_body(self, index: int = -1) -> Any:
        """The JSON body of a request that was sent."""
        body = self.calls()[index].request.body
        return None if body is None else json.loads(body)

    def header(self, name: str, index: int = -1) -> str | None:
        """A header of a request that was sent."""
        headers = self.calls()[index].request.headers
        return next((value for key, value in headers if key.lower() == name.lower()), None)

    def answer(
        self,
        status: int = 200,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        call: Call | CallPart | None = None,
    ) -> Decision:
        """The newest call (or `call`) is answered; `body` is JSON unless it is bytes."""
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        given = tuple((headers or {}).items())
        target = call or self.call
        outcome = Answer(status=status, body=content, headers=given, elapsed=5, url=target.request.url)
        return self.deliver(CallEnded(target.token, outcome))

    def fault(self, kind: FaultKind = FaultKind.CONNECT, message: str = "refused") -> Decision:
        """The newest call brings no answer."""
        return self.deliver(CallEnded(self.call.token, Fault(kind, message, 3)))

    @staticmethod
    def of(kind: type[SOME], things: list[Any]) -> list[SOME]:
        """Those of one kind."""
        return [thing for thing in things if isinstance(thing, kind)]

    def record_of(self, kind: type[SOME]) -> SOME:
        """The newest record of a kind."""
        return self.of(kind, self.records)[-1]

    def execution(self, number: int) -> ExecutionRecord:
        """An execution as it was last recorded."""
        found = [one for one in self.of(ExecutionRecord, self.records) if one.execute_number == number]
        return found[-1]

    def states(self) -> list[ExecutionState]:
        """The last recorded state of every execution, by number."""
        return [
            one.state
            for _, one in sorted(
                {one.execute_number: one for one in self.of(ExecutionRecord, self.records)}.items()
            )
        ]

    def ledger(self) -> list[tuple[int, str, str | None]]:
        """(planned moment since the start in ms, outcome, reason) of every entry."""
        return [
            (one.planned_at - START, one.outcome.value, one.reason)
            for one in self.of(FiringRecord, self.records)
        ]

    def deliveries(self) -> list[Delivery]:
        """Every notification so far."""
        return [effect.delivery for effect in self.of(Notify, self.effects)]

    def told(self) -> list[tuple[str, Any]]:
        """(event, body) of every notification so far."""
        return [(one.event, json.loads(one.request.body or b"null")) for one in self.deliveries()]

    @property
    def summary(self) -> Summary:
        """The job as its reader sees it."""
        return summarize(self.job)

    @property
    def head(self) -> Head:
        """The head of the job's state."""
        assert self.document is not None
        return self.document.head

    def open(self, number: int) -> Open:
        """An execution that has not ended."""
        return next(run for run in self.head.opens if run.execute_number == number)

    def context(self, number: int) -> Context:
        """The context of a live execution."""
        assert self.document is not None
        return self.document.contexts[number]

    def set(self, **values: Any) -> None:
        """Changes the head by hand."""
        self.document = Document(msgspec.structs.replace(self.head, **values), self.document.contexts)


EVERY_10 = {"dueTime": "10s", "period": "10s"}


def ticking(surroundings: Surroundings | None = None, **members: Any) -> Rig:
    """A job that fires every ten seconds, ten seconds from its creation on."""
    return Rig(surroundings, **{"timer": EVERY_10, **members}).create()


CHAIN = [{"url": "http://target.test/1"}, {"url": "http://target.test/2", "body": "${$.x}"}]


def running(qos: int, **members: Any) -> Rig:
    """A job whose first step is answered and whose second is in flight."""
    rig = Rig(qos=qos, **{"request": CHAIN, **members}).triggered()
    rig.answer(200, {"x": "y"})
    return rig


TWO: list[dict[str, Any]] = [
    {"url": "http://target.test/one", "respEnvName": "ONE"},
    {"url": "http://target.test/two?x=${ONE.x}", "body": {"all": "${ONE}|json", "x": "${$.x}"}},
]


def retried(steps: list[dict[str, Any]], **members: Any) -> Rig:
    """A chain that is retried once, after a second."""
    return Rig(request=steps, retry=[{"errorEquals": "*", "maxAttempts": 1}], **members).triggered()


def started(**members: Any) -> Rig:
    """An asynchronous job whose first execution is in its first step."""
    return Rig(**{"async": True, **members}).triggered()


def feedback(rig: Rig, body: Any, counts: int = 1, token: str | None = None) -> Any:
    """The target reports."""
    given = feedback_token(b"key", "uid", counts) if token is None else token
    rig.deliver(FeedbackArrived(counts, given, body))
    return rig.reply


CHECK = "http://target.test/state/${schedulingExecuteNumber}"


def polled(**members: Any) -> Rig:
    """One that is polled, its chain through."""
    rig = started(**{"checkUrl": CHECK, **members})
    rig.answer(200)
    return rig
