"""Shows readers of events what the alerts find out: `overdue`, `failing` and `recovered`."""

from collections.abc import Mapping, Sequence

import msgspec

from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.ports.alerts import AlertLine, AlertTable, Noted
from scheduler_service.telemetry.occurrences import Take

FOUND_HERE = frozenset({OccurrenceKind.OVERDUE, OccurrenceKind.FAILING})
"""What alerts alone find out; all else that they tell was an occurrence before."""


class PublishedAlerts:
    """A table of alerts whose new findings and whose ends are published, too (`ports.alerts.AlertTable`).

    Several alerts may find the same: each of them publishes it, and names itself.
    """

    def __init__(self, *, table: AlertTable, publish: Take) -> None:
        self._table = table
        self._publish = publish
        self.marks = table.marks
        self.drop = table.drop
        self.open = table.open
        self.count_open = table.count_open
        self.waiting = table.waiting
        self.said = table.said
        self.said_all = table.said_all
        self.purge = table.purge
        self.ended_badly = table.ended_badly
        self.given_up = table.given_up
        self.late = table.late
        self.runs = table.runs

    async def note(self, noted: Sequence[Noted], marks: Mapping[str, int]) -> Sequence[Noted]:
        """Notes them, and publishes those that were not known. Raises StoreUnavailable."""
        new = await self._table.note(noted, marks)
        for one in new:
            if one.occurrence.kind in FOUND_HERE:
                self._publish(msgspec.structs.replace(one.occurrence, subject=one.alert))
        return new

    async def recover(self, lines: Sequence[AlertLine], at: int) -> None:
        """Notes the ends, and publishes them. Raises StoreUnavailable."""
        await self._table.recover(lines, at)
        for line in lines:
            self._publish(_end_of(line, at))


def _end_of(line: AlertLine, at: int) -> Occurrence:
    return Occurrence(
        kind=OccurrenceKind.RECOVERED,
        at=at,
        tenant=line.occurrence.tenant,
        job_id=line.occurrence.job_id,
        uid=line.occurrence.uid,
        reason=line.kind.value,
        subject=line.subject,
    )
