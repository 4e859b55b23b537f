"""The event words of the log, and the level of each; docs/logs.md says what happened, and what to do."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from scheduler_service.telemetry.log_summaries import FULL


class Level(StrEnum):
    """How much a line matters; as `log.level` it admits itself and what follows it here.

    `info`: a step of the service. `warning`: something went wrong for one job, caller, instance or node, or
    it mends itself. `error`: this process cannot do what it should, or has a defect.
    """

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


DEBUG, INFO, WARNING, ERROR = Level.DEBUG, Level.INFO, Level.WARNING, Level.ERROR


ENDINGS = 100
"""Of what has a line each (SPEC section 14) so many are no flood yet."""


class Word(msgspec.Struct, frozen=True):
    """One event. `kind`: the keys by which floods of it are told apart, as by `service`.

    Of one kind `lines` are written in ten seconds; `is_asked_for`: each, however many there are.
    """

    level: Level
    kind: tuple[str, ...] = ()
    lines: int = FULL
    is_asked_for: bool = False


UNKNOWN = Word(WARNING)
"""An event that is not in the vocabulary."""

VOCABULARY: Mapping[str, Word] = MappingProxyType(
    {
        "address_assumed": Word(INFO),
        "address_not_found": Word(WARNING),
        "alarm_not_taken": Word(WARNING),
        "alarms_not_read": Word(ERROR),
        "alert_damaged": Word(ERROR),
        "alert_not_sent": Word(WARNING),
        "alert_paused": Word(INFO),
        "alert_refused": Word(ERROR),
        "alerts_delayed": Word(WARNING),
        "answer_not_taken": Word(WARNING),
        "attempt_failed": Word(DEBUG, kind=("error",)),
        "audit_not_written": Word(ERROR),
        "call_failed": Word(ERROR),
        "call_not_sent": Word(WARNING),
        "calls_delayed": Word(WARNING),
        "certificate_not_read": Word(WARNING),
        "claim_not_returned": Word(WARNING),
        "clock_step_not_kept": Word(WARNING),
        "clock_stepped": Word(WARNING),
        "confirmation_not_written": Word(WARNING),
        "connections_closed": Word(WARNING),
        "contexts_lost": Word(WARNING),
        "contexts_not_written": Word(WARNING),
        "contexts_reached_again": Word(INFO),
        "contexts_unreachable": Word(ERROR),
        "contexts_unsafe": Word(WARNING),
        "count_not_taken": Word(WARNING),
        "declaration_warned": Word(WARNING, kind=("service", "pointer", "code")),
        "declarations_exceeded": Word(WARNING),
        "deliveries_left": Word(ERROR),
        "deliveries_not_read": Word(WARNING),
        "delivery_damaged": Word(ERROR),
        "delivery_failed": Word(WARNING, kind=("target", "error"), lines=ENDINGS),
        "delivery_not_read": Word(WARNING),
        "delivery_not_settled": Word(WARNING),
        "descriptors_exhausted": Word(ERROR),
        "descriptors_set": Word(INFO),
        "draining": Word(INFO),
        "egress_set": Word(INFO),
        "events_not_shared": Word(WARNING),
        "execution_cancelled": Word(INFO, kind=("reason",)),
        "execution_failed": Word(WARNING, kind=("target", "error"), lines=ENDINGS),
        "files_exposed": Word(WARNING),
        "files_narrowed": Word(WARNING),
        "firing_delayed": Word(WARNING),
        "firing_skipped": Word(INFO, kind=("reason",)),
        "firings_missed": Word(WARNING),
        "gathered": Word(INFO),
        "gathering": Word(INFO),
        "handover_failed": Word(WARNING),
        "handover_missed": Word(WARNING),
        "hangup_ignored": Word(INFO),
        "heartbeat_not_written": Word(ERROR),
        "heartbeat_written_again": Word(INFO),
        "history_not_awaited": Word(WARNING),
        "history_not_flushed": Word(ERROR),
        "history_misplaced": Word(WARNING),
        "history_not_written": Word(ERROR),
        "history_written_again": Word(INFO),
        "instance_lost": Word(WARNING, kind=("service",)),
        "instance_returned": Word(INFO, kind=("service",)),
        "job_blocked": Word(WARNING),
        "job_not_woken": Word(WARNING),
        "job_paused": Word(WARNING),
        "jobs_moved": Word(INFO),
        "keys_not_read": Word(WARNING),
        "keys_read_again": Word(INFO),
        "leases_not_swept": Word(WARNING),
        "library_failed": Word(ERROR, kind=("logger",)),
        "library_warned": Word(WARNING, kind=("logger",)),
        "lines_omitted": Word(WARNING),
        "listening": Word(INFO),
        "loop_stalled": Word(WARNING),
        "loss_not_taken": Word(WARNING),
        "node_joined": Word(INFO),
        "node_left": Word(INFO),
        "node_lost": Word(WARNING),
        "node_replaced": Word(ERROR),
        "node_stalled": Word(ERROR),
        "notice_dropped": Word(WARNING),
        "observer_failed": Word(ERROR),
        "older_nodes_awaited": Word(WARNING),
        "operation_failed": Word(ERROR),
        "part_not_delivered": Word(WARNING),
        "process_described": Word(WARNING, kind=("part",)),
        "queues_not_read": Word(WARNING),
        "queues_read_again": Word(INFO),
        "rates_not_shared": Word(ERROR),
        "rates_shared_again": Word(INFO),
        "ready": Word(INFO),
        "records_changed": Word(ERROR),
        "registry_not_shared": Word(ERROR),
        "registry_row_skipped": Word(WARNING),
        "registry_shared_again": Word(INFO),
        "reminder_not_removed": Word(WARNING),
        "reminder_not_set": Word(WARNING),
        "request_answered": Word(INFO, is_asked_for=True),
        "requests_failed": Word(ERROR),
        "requests_malformed": Word(WARNING),
        "retries_exhausted": Word(
            WARNING,
            kind=("target", "error"),
            lines=ENDINGS,
        ),
        "review_not_completed": Word(WARNING),
        "calendar_not_followed": Word(WARNING),
        "calendar_restored": Word(WARNING),
        "calendars_not_read": Word(WARNING),
        "calendars_read_again": Word(INFO),
        "secrets_not_read": Word(WARNING),
        "secrets_read_again": Word(INFO),
        "sender_failed": Word(ERROR),
        "sidecar_awaited": Word(WARNING),
        "sidecar_changed": Word(WARNING),
        "spans_dropped": Word(WARNING, kind=("reason",)),
        "start_delayed": Word(WARNING),
        "state_restored": Word(WARNING),
        "stopped": Word(INFO),
        "store_failed": Word(ERROR),
        "store_not_written": Word(ERROR),
        "store_taken": Word(ERROR),
        "store_written_again": Word(INFO),
        "sweep_failed": Word(WARNING),
        "sweep_repeated": Word(INFO),
        "task_failed": Word(ERROR, kind=("task",)),
        "tenant_limited": Word(WARNING, kind=("tenant", "limit")),
        "traces_exported_again": Word(INFO),
        "traces_not_exported": Word(WARNING),
        "trials_ended_again": Word(INFO),
        "trials_not_ended": Word(WARNING),
        "trigger_skipped": Word(INFO, kind=("reason",)),
        "turn_failed": Word(ERROR),
        "turns_lost": Word(ERROR),
        "unsent_not_reported": Word(WARNING),
        "variables_ignored": Word(INFO),
        "worker_answered": Word(INFO),
        "worker_lost": Word(ERROR),
        "worker_not_started": Word(ERROR),
        "worker_not_stopped": Word(WARNING),
        "worker_restarted": Word(INFO),
        "worker_stalled": Word(WARNING),
        "worker_stuck": Word(ERROR),
    }
)
"""Every word that the service writes, by name; `docs/logs.md` has their meaning, keys and remedies."""
