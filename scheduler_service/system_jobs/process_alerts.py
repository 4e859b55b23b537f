"""Builds the alerts of a service or a node from its settings; without any there is nothing that runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict, Unpack

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.public_events import OccurrenceKind
from scheduler_service.engine.program import Surroundings
from scheduler_service.persistence.history.alerts import SqlAlertTable
from scheduler_service.persistence.sql.database import Database
from scheduler_service.ports.alerts import AlertLine, AlertTable
from scheduler_service.ports.catalogue import Catalogue
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.delivery import Compile, Deliver
from scheduler_service.ports.log import Log
from scheduler_service.services.reconcile import ReadJob
from scheduler_service.settings import Settings
from scheduler_service.settings.alert_settings import Alert
from scheduler_service.system_jobs.alert_jobs import AlertJobs, find_troubles, finish, job_of, jobs_of
from scheduler_service.system_jobs.system_job_definitions import patiently
from scheduler_service.telemetry.alerts.alert_loop import (
    AlertLoop,
    AlertLoopParts,
    FindLost,
    Leads,
    always,
    nothing,
)
from scheduler_service.telemetry.alerts.alert_messages import AlertMessages
from scheduler_service.telemetry.alerts.alert_receivers import RECEIVERS
from scheduler_service.telemetry.alerts.alert_rules import AlertRule
from scheduler_service.telemetry.alerts.failure_watch import FailureWatch
from scheduler_service.telemetry.alerts.overdue_watch import (
    IsOnline,
    LatenessWatch,
    ListNodes,
    RecoveryWatch,
    no_nodes,
)
from scheduler_service.telemetry.event_source import Occurrences
from scheduler_service.telemetry.log_summaries import Tally

OPEN_SHOWN = 500


class ClusterSight(TypedDict, total=False):
    """What a node of a cluster knows of the others."""

    leads: Leads
    find_lost: FindLost
    nodes: ListNodes


class Looking(TypedDict):
    """What each of those that look for findings needs."""

    rules: Sequence[AlertRule]
    table: AlertTable
    catalogue: Catalogue
    clock: Timekeeper


class ProcessAlerts:
    """The alerts of one process (`api.dependencies.AlertReader`); the last three are those of a cluster."""

    def __init__(
        self,
        *,
        settings: Settings,
        surroundings: Surroundings,
        database: Database,
        deliver: Deliver,
        catalogue: Catalogue,
        read_job: ReadJob,
        compile_text: Compile,
        clock: Timekeeper,
        occurrences: Occurrences,
        is_online: IsOnline,
        log: Log,
        **sight: Unpack[ClusterSight],
    ) -> None:
        self._settings, self._database, self._occurrences = settings, database, occurrences
        self._catalogue, self._clock, self._log = catalogue, clock, log
        self._is_online, self._leads = is_online, sight.get("leads", always)
        self._find_lost, self._nodes = sight.get("find_lost", nothing), sight.get("nodes", no_nodes)
        self._jobs = AlertJobs(
            settings=settings,
            troubles=lambda: find_troubles(settings, surroundings),
            deliver=deliver,
            compile_text=compile_text,
            catalogue=catalogue,
            read_job=read_job,
            clock=clock,
            log=log,
        )
        self._table: SqlAlertTable | None = None
        self._desk: AlertLoop | None = None
        self._leave: Callable[[], None] | None = None

    @property
    def configured(self) -> Sequence[Mapping[str, object]]:
        """The alerts of the settings in wire form; values of headers and queries of addresses are hidden."""
        shown = {"format", "headers", "job_id", "label", "method", "name", "on", "url"} | {
            "failing_count",
            "min_interval_seconds",
            "overdue_seconds",
        }
        troubles = self._jobs.troubles
        return [
            {
                **alert.model_dump(mode="json", by_alias=True, include=shown),
                "deliveriesOf": job_of(alert.name),
                "trouble": troubles.get(alert.name),
            }
            for alert in self._settings.alerts
        ]

    async def start(self) -> None:
        """Installs the jobs, pauses those of alerts before, and begins to look.

        A worker process that has just died is waited for. Raises StoreError.
        """
        await patiently(self._jobs.retire, clock=self._clock, log=self._log)
        if not self._settings.alerts:
            return
        await patiently(self._jobs.install, clock=self._clock, log=self._log)
        self._table = SqlAlertTable(database=self._database, publish=self._occurrences.publish)
        self._desk = AlertLoop(self._make_parts(self._table))
        self._leave = self._occurrences.listen(self._desk.take)
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

    async def open(self, *, is_own: bool) -> tuple[Sequence[AlertLine], int]:
        """The first 500 that last, and how many do. Raises StoreUnavailable.

        `is_own`: of no tenant other than `default`.
        """
        if self._table is None:
            return (), 0
        found = await self._table.open((), OPEN_SHOWN, is_own=is_own)
        return found, await self._table.count_open(is_own=is_own)

    def _make_parts(self, table: AlertTable) -> AlertLoopParts:
        rules = [rule_of(alert) for alert in self._settings.alerts]
        looking: Looking = {
            "rules": rules,
            "table": table,
            "catalogue": self._catalogue,
            "clock": self._clock,
        }
        return AlertLoopParts(
            rules=rules,
            table=table,
            clock=self._clock,
            failure_watch=FailureWatch(**looking, own=jobs_of(self._settings)),
            lateness=LatenessWatch(**looking),
            recovery=RecoveryWatch(**looking, is_online=self._is_online, nodes=self._nodes),
            messages=AlertMessages(table=table, clock=self._clock, send=self._jobs.send, finish=self._finish),
            delayed=Tally("alerts_delayed", log=self._log),
            leads=self._leads,
            find_lost=self._find_lost,
        )

    def _finish(self, name: str, message: Mapping[str, object]) -> dict[str, object]:
        alert = next(one for one in self._settings.alerts if one.name == name)
        return finish(alert, message, self._settings.server.external_url)


def rule_of(alert: Alert) -> AlertRule:
    """One alert of the settings as the loop has it."""
    labels = (label.partition(":") for label in alert.label)
    return AlertRule(
        name=alert.name,
        kinds=frozenset(OccurrenceKind(kind) for kind in alert.on),
        job_id=alert.job_id,
        labels=tuple((name, value) for name, _, value in labels),
        interval=round(alert.min_interval_seconds * SECOND),
        overdue=round(alert.overdue_seconds * SECOND),
        failing=alert.failing_count,
        channel=alert.url if alert.format in RECEIVERS else "",
    )
