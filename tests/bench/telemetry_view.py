"""All telemetry of a service, and what it sees of executions, to be shown to it once more."""

from collections.abc import Callable
from typing import Any

from scheduler_service.app.telemetry import Telemetry
from scheduler_service.domain.wire import Outcome
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.history import Batch
from scheduler_service.settings import Settings
from scheduler_service.telemetry.decorators import PortDecorators


def all_telemetry() -> PortDecorators:
    """What a service has with its settings as shipped."""
    return Telemetry(settings=Settings(), log=lambda event, /, **keys: print(event, keys)).decorators


class Nothing:
    """A history that keeps nothing."""

    def append(self, batch: Batch, *, durable: bool) -> None:
        """Nothing is done."""

    def is_behind(self) -> bool:
        """Nothing waits."""
        return False

    async def flush(self) -> None:
        """Nothing is there."""

    async def close(self) -> None:
        """Nothing is open."""


class Seen:
    """All that telemetry sees of some executions, in order."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, Any]] = []
        self.decorators = PortDecorators(
            history=self._keep_records, observe_job=self._keep_job, observe_call=self._keep_call
        )

    def show(self, decorators: PortDecorators, times: int) -> None:
        """Shows it again to what stands in front of the ports."""
        append: Callable[..., None] = decorators.history(Nothing()).append
        observe_call = decorators.observe_call
        for _ in range(times):
            for kind, one in self.shown:
                if kind == "records":
                    append(one, durable=False)
                elif kind == "job":
                    decorators.observe_job(*one)
                elif observe_call is not None:
                    observe_call(one)

    def _keep_records(self, history: Any) -> Any:
        append = history.append

        def keep(batch: Batch, *, durable: bool) -> None:
            self.shown.append(("records", batch))
            append(batch, durable=durable)

        history.append = keep
        return history

    def _keep_job(self, before: CatalogueEntry | None, after: CatalogueEntry) -> None:
        self.shown.append(("job", (before, after)))

    def _keep_call(self, outcome: Outcome) -> None:
        self.shown.append(("call", outcome))
