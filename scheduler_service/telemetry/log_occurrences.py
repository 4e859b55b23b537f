"""Turns lines of the log into occurrences: what is no job's doing is first known there."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.flood import omits_of
from scheduler_service.telemetry.occurrences import Take


class Meaning(NamedTuple):
    """The kind of an occurrence, and the keys of the line that name its subject, from the widest on.

    `name`: the subject where no key names it.
    """

    kind: OccurrenceKind
    subject: tuple[str, ...] = ()
    name: str | None = None


MEANINGS: Mapping[str, Meaning] = {
    "instance_lost": Meaning(OccurrenceKind.INSTANCE_LOST, ("service", "instance")),
    "instance_returned": Meaning(OccurrenceKind.INSTANCE_BACK, ("service", "instance")),
    "node_joined": Meaning(OccurrenceKind.NODE_JOINED, ("node",)),
    "node_left": Meaning(OccurrenceKind.NODE_LEFT, ("node",)),
    "node_lost": Meaning(OccurrenceKind.NODE_LOST, ("node",)),
    "worker_lost": Meaning(OccurrenceKind.WORKER_LOST, ("worker",)),
    "worker_restarted": Meaning(OccurrenceKind.WORKER_BACK, ("worker",)),
    "history_not_written": Meaning(OccurrenceKind.STORE_LOST, name="history"),
    "history_written_again": Meaning(OccurrenceKind.STORE_BACK, name="history"),
    "store_lost": Meaning(OccurrenceKind.STORE_LOST),
    "store_unreachable": Meaning(OccurrenceKind.STORE_LOST),
    "store_not_written": Meaning(OccurrenceKind.STORE_LOST),
    "store_written_again": Meaning(OccurrenceKind.STORE_BACK),
    "store_reached_again": Meaning(OccurrenceKind.STORE_BACK),
}
"""The event words that are occurrences as well."""


class OccurrenceLog:
    """A log whose lines in `MEANINGS` are published too (`CountingLog`); `wall` gives wall ms."""

    def __init__(self, *, log: Log, publish: Take, wall: Callable[[], int]) -> None:
        self._log = log
        self._publish = publish
        self._wall = wall
        self._omits = omits_of(log)

    def __call__(self, event: str, /, **keys: object) -> None:
        """Writes the line, then publishes what it means. Never raises."""
        self._log(event, **keys)
        meaning = MEANINGS.get(event)
        if meaning is None:
            return
        subject = "/".join(str(keys[key]) for key in meaning.subject if key in keys)
        error = keys.get("error")
        self._publish(
            Occurrence(
                kind=meaning.kind,
                at=self._wall(),
                subject=subject or meaning.name,
                message=None if error is None else str(error),
            )
        )

    def omits(self, event: str, /, **kind: object) -> bool:
        """Whether a line would neither be written now nor be published."""
        return event not in MEANINGS and self._omits(event, **kind)
