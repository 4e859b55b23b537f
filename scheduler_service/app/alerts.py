"""Builds the alerts of a service or a node from its settings; without any there is nothing that runs."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from scheduler_service.app.alert_jobs import AlertJobs, find_troubles, job_of, jobs_of
from scheduler_service.app.service_registry import ReadJob
from scheduler_service.app.surroundings import DefinitionCompiler
from scheduler_service.app.system_jobs import patiently
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.public_events import OccurrenceKind
from scheduler_service.engine.program import Surroundings
from scheduler_service.persistence.history.alerts import SqlAlertTable
from scheduler_service.persistence.sql.database import Database
from scheduler_service.ports.alerts import AlertLine, AlertTable
from scheduler_service.ports.catalogue import Catalogue
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.delivery import Deliver
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings
from scheduler_service.settings.alerts import Alert
from scheduler_service.telemetry.alerts.desk import AlertDesk, DeskParts, FindLost, Leads, always, nothing
from scheduler_service.telemetry.alerts.lateness import LatenessWatch
from scheduler_service.telemetry.alerts.lookout import Lookout
from scheduler_service.telemetry.alerts.recovery import IsOnline, ListNodes, RecoveryWatch, no_nodes
from scheduler_service.telemetry.alerts.rules import AlertRule
from scheduler_service.telemetry.alerts.saying import Saying
from scheduler_service.telemetry.occurrences import Occurrences
from scheduler_service.telemetry.tally import Tally

OPEN_SHOWN = 500


class AlertSurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What alerts stand on; the last three are those of a cluster."""

    database: Database
    deliver: Deliver
    catalogue: Catalogue
    read_job: ReadJob
    compiler: DefinitionCompiler
    surroundings: Surroundings
    clock: Timekeeper
    occurrences: Occurrences
    is_online: IsOnline
    log: Log
    leads: Leads = always
    find_lost: FindLost = nothing
    nodes: ListNodes = no_nodes


class ProcessAlerts:
    """The alerts of one process (`api.dependencies.AlertReader`)."""

    def __init__(self, *, settings: Settings, parts: AlertSurroundings) -> None:
        self._settings = settings
        self._parts = parts
        self._jobs = AlertJobs(
            settings=settings,
            troubles=find_troubles(settings, parts.surroundings),
            deliver=parts.deliver,
            compiler=parts.compiler,
            catalogue=parts.catalogue,
            read_job=parts.read_job,
            clock=parts.clock,
            log=parts.log,
        )
        self._table: SqlAlertTable | None = None
        self._desk: AlertDesk | None = None
        self._leave: Callable[[], None] | None = None

    @property
    def configured(self) -> Sequence[Mapping[str, object]]:
        """The alerts of the settings in wire form; values of headers and queries of addresses are hidden."""
        shown = {"headers", "job_id", "label", "method", "name", "on", "url"} | {
            "failing_count",
            "min_interval_seconds",
            "overdue_seconds",
        }
        return [
            {
                **alert.model_dump(mode="json", by_alias=True, include=shown),
                "deliveriesOf": job_of(alert.name),
                "trouble": self._jobs.troubles.get(alert.name),
            }
            for alert in self._settings.alerts
        ]

    async def start(self) -> None:
        """Installs the jobs, pauses those of alerts before, and begins to look.

        A worker process that has just died is waited for. Raises StoreError.
        """
        await patiently(self._jobs.retire, clock=self._parts.clock, log=self._parts.log)
        if not self._settings.alerts:
            return
        await patiently(self._jobs.install, clock=self._parts.clock, log=self._parts.log)
        self._table = SqlAlertTable(
            database=self._parts.database, tenant=DEFAULT_TENANT, publish=self._parts.occurrences.publish
        )
        self._desk = AlertDesk(self._make_parts(self._table))
        self._leave = self._parts.occurrences.listen(self._desk.take)
        self._desk.start()

    async def stop(self) -> None:
        """Ends it; what is not said yet is said after the next start."""
        if self._leave is not None:
            self._leave()
        if self._desk is not None:
            await self._desk.stop()
        if self._table is not None:
            await self._table.close()

    @property
    def is_idle(self) -> bool:
        """Whether no round is under way."""
        return self._desk is None or self._desk.is_idle

    async def open(self) -> tuple[Sequence[AlertLine], int]:
        """The first 500 that last, and how many do. Raises StoreUnavailable."""
        if self._table is None:
            return (), 0
        return await self._table.open((), OPEN_SHOWN), await self._table.count_open()

    def _make_parts(self, table: AlertTable) -> DeskParts:
        given, settings = self._parts, self._settings
        rules = [rule_of(alert) for alert in settings.alerts]
        catalogue, clock = given.catalogue, given.clock
        return DeskParts(
            rules=rules,
            table=table,
            clock=clock,
            lookout=Lookout(
                rules=rules,
                table=table,
                catalogue=catalogue,
                clock=clock,
                own=jobs_of(settings),
            ),
            lateness=LatenessWatch(
                rules=rules, table=table, catalogue=catalogue, clock=clock, tenant=DEFAULT_TENANT
            ),
            recovery=RecoveryWatch(
                rules=rules,
                table=table,
                catalogue=catalogue,
                clock=clock,
                is_online=given.is_online,
                nodes=given.nodes,
            ),
            saying=Saying(table=table, clock=clock, send=self._jobs.send),
            delayed=Tally("alerts_delayed", log=given.log),
            leads=given.leads,
            find_lost=given.find_lost,
        )


def rule_of(alert: Alert) -> AlertRule:
    """One alert of the settings as the desk has it."""
    labels = (label.partition(":") for label in alert.label)
    return AlertRule(
        name=alert.name,
        kinds=frozenset(OccurrenceKind(kind) for kind in alert.on),
        job_id=alert.job_id,
        labels=tuple((name, value) for name, _, value in labels),
        interval=round(alert.min_interval_seconds * SECOND),
        overdue=round(alert.overdue_seconds * SECOND),
        failing=alert.failing_count,
    )
