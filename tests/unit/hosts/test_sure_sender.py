"""Each call ends with an outcome, which is shown once; what did not leave has none."""

import pytest

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.hosts.sure_sender import SureSender
from scheduler_service.ports.sending import MayGo, NotSent, always

pytestmark = pytest.mark.anyio

REQUEST = OutboundRequest("GET", "http://127.0.0.1:9/", ())


class Scripted:
    """Gives what it is told to."""

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self._outcomes = list(outcomes)
        self.is_closed = False

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The next one."""
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def close(self) -> None:
        """Notes it."""
        self.is_closed = True


class Scene:
    """A sender with this script, what was shown of its calls, and the words of its log."""

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self.shown: list[Outcome] = []
        self.words: list[str] = []
        self.behind = Scripted(*outcomes)
        self.sender = SureSender(
            sender=self.behind,
            log=lambda event, /, **keys: self.words.append(event),
            observe_call=self.shown.append,
        )


async def test_each_outcome_is_shown_and_passed_on() -> None:
    """An answer and a fault alike."""
    outcomes = [Answer(204, elapsed=3), Fault(FaultKind.EGRESS, "no", 1)]
    scene = Scene(*outcomes)
    assert [await scene.sender.send(REQUEST) for _ in outcomes] == outcomes
    assert scene.shown == outcomes
    assert scene.words == []


async def test_a_broken_sender_is_a_fault_that_is_counted() -> None:
    """The execution that waits for it ends, and the log has the defect."""
    scene = Scene(RuntimeError("broken"))
    outcome = await scene.sender.send(REQUEST)
    assert isinstance(outcome, Fault)
    assert outcome.kind is FaultKind.CONNECT
    assert scene.shown == [outcome]
    assert scene.words == ["sender_failed"]


async def test_what_did_not_leave_is_no_call() -> None:
    """It is passed on, and not shown; so is the end."""
    scene = Scene(NotSent())
    with pytest.raises(NotSent):
        await scene.sender.send(REQUEST)
    assert (scene.shown, scene.words) == ([], [])
    await scene.sender.close()
    assert scene.behind.is_closed
