"""Starts the effects of a turn after its commit; nothing here waits."""

from collections.abc import Mapping

from scheduler_service.domain.effects import Abandon, Call, CountMissed, Effect, Inform, Notify, Retire
from scheduler_service.engine.program import Program
from scheduler_service.hosts.counting import Counter
from scheduler_service.hosts.courier import Courier
from scheduler_service.hosts.crew import Crew
from scheduler_service.hosts.part_crew import PartCrew


class EmbeddedAct:
    """Gives each effect to whom it belongs."""

    def __init__(self, *, crew: Crew, parts: PartCrew, courier: Courier, counter: Counter) -> None:
        self._crew = crew
        self._parts = parts
        self._courier = courier
        self._counter = counter

    def __call__(self, job_id: str, effects: tuple[Effect, ...], programs: Mapping[int, Program]) -> None:
        """Starts `effects` in order; `programs` are those of the job after the turn."""
        for effect in effects:
            if type(effect) is Call:  # most of them; a pattern costs five times as much
                self._crew.call(job_id, effect.token, effect.request)
                continue
            match effect:
                case Abandon(token=token):
                    self._crew.abandon(token)
                case Notify(delivery=delivery):
                    self._courier.take(delivery)
                case Inform(request=request):
                    self._crew.inform(request)
                case CountMissed(revision=revision):
                    self._counter.ask(job_id, programs[revision].timer, effect)
                case Retire():
                    pass  # its cache entry goes when the turn has ended
                case _:
                    self._parts.start(job_id, effect)
