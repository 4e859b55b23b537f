"""The event words of the log: the level of each, and in one sentence what happened or what to do."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from scheduler_service.telemetry.tally import FULL


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
    meaning: str
    kind: tuple[str, ...] = ()
    lines: int = FULL
    is_asked_for: bool = False


UNKNOWN = Word(WARNING, "An event that is not in the vocabulary.")

VOCABULARY: Mapping[str, Word] = MappingProxyType(
    {
        "address_assumed": Word(INFO, "Feedback URLs have the address that this machine was found to have."),
        "address_not_found": Word(WARNING, "Targets elsewhere cannot report: set server.external_url."),
        "alarm_not_taken": Word(WARNING, "The alarm of a job could not be handled; it rings again."),
        "alarms_not_read": Word(ERROR, "Due times could not be read from the store; they are read again."),
        "alert_damaged": Word(ERROR, "The job of an alert is damaged: this alert is not sent."),
        "alert_not_sent": Word(WARNING, "An alert cannot be sent as settings are now; the others can."),
        "alert_paused": Word(INFO, "An alert is not in the settings any more; its job is paused."),
        "alert_refused": Word(ERROR, "The job of an alert refused a message; it is handed over again."),
        "alerts_delayed": Word(WARNING, "Alerts wait, because the history or the store is away."),
        "answer_not_taken": Word(WARNING, "The answer of a target was not delivered to its job in time."),
        "attempt_failed": Word(DEBUG, "An attempt failed and is retried.", kind=("error",)),
        "call_failed": Word(ERROR, "A call between the service process and a worker process met a defect."),
        "call_not_sent": Word(WARNING, "A request was held back, because this node had no heartbeat."),
        "calls_delayed": Word(WARNING, "Calls wait, because few descriptors are left for calls."),
        "claim_not_returned": Word(WARNING, "A part that nobody heard of could not be handed back."),
        "clock_step_not_kept": Word(WARNING, "A step of the system clock could not be stored."),
        "clock_stepped": Word(WARNING, "The system clock was set by more than a second."),
        "confirmation_not_written": Word(WARNING, "That the history has some records could not be stored."),
        "connections_closed": Word(WARNING, "Connections of callers were closed or refused."),
        "contexts_lost": Word(WARNING, "The store of contexts has lost those of a job; they end as `lost`."),
        "contexts_not_written": Word(
            WARNING, "The sidecar did not write contexts of a job; they are in its row."
        ),
        "contexts_reached_again": Word(INFO, "The store of contexts (`contexts.url`) answers again."),
        "contexts_unreachable": Word(
            ERROR, "The store of contexts does not answer: turns of qos 1 wait for it."
        ),
        "contexts_unsafe": Word(WARNING, "The store of contexts may lose what it has confirmed."),
        "count_not_taken": Word(WARNING, "The count of missed firings could not be delivered to its job."),
        "declaration_warned": Word(
            WARNING, "A job that a service declares has a warning.", kind=("service", "pointer", "code")
        ),
        "declarations_exceeded": Word(WARNING, "Services declare more than they may together."),
        "deliveries_left": Word(ERROR, "Notifications of an earlier process wait for the next start."),
        "deliveries_not_read": Word(WARNING, "Notifications of an earlier process could not be read yet."),
        "delivery_damaged": Word(ERROR, "A notification in the store is damaged: it is not sent."),
        "delivery_failed": Word(
            WARNING, "A notification could not be delivered.", kind=("target", "error"), lines=ENDINGS
        ),
        "delivery_not_read": Word(WARNING, "A notification could not be read from the store yet."),
        "delivery_not_settled": Word(WARNING, "The outcome of a notification could not be stored yet."),
        "descriptors_exhausted": Word(ERROR, "The process or the machine had no descriptor."),
        "descriptors_set": Word(INFO, "How many descriptors this process may open."),
        "draining": Word(INFO, "The service takes no firing any more and waits for what runs."),
        "egress_set": Word(INFO, "Which addresses jobs may reach."),
        "events_not_shared": Word(
            WARNING, "Events could not be shown to the other nodes; readers are told by a gap."
        ),
        "execution_cancelled": Word(INFO, "An execution was cancelled.", kind=("reason",)),
        "execution_failed": Word(
            WARNING, "An execution failed and is not tried again.", kind=("target", "error"), lines=ENDINGS
        ),
        "files_narrowed": Word(WARNING, "Files of the data folder could be read by other users until now."),
        "firing_delayed": Word(WARNING, "A firing started later than planned by a second or more."),
        "firing_skipped": Word(INFO, "A firing started no execution.", kind=("reason",)),
        "firings_missed": Word(WARNING, "Planned firings passed while nothing could fire them."),
        "gathered": Word(INFO, "The jobs that an earlier version divided are in one file."),
        "gathering": Word(INFO, "The jobs that an earlier version divided are moved into one file."),
        "handover_failed": Word(WARNING, "A running execution could not be handed to another node."),
        "handover_missed": Word(WARNING, "A job came back before its execution was handed over."),
        "hangup_ignored": Word(INFO, "The process was told to hang up (SIGHUP), and goes on."),
        "heartbeat_not_written": Word(ERROR, "The heartbeat of this node could not be written."),
        "heartbeat_written_again": Word(INFO, "The heartbeat of this node is written again."),
        "history_not_awaited": Word(WARNING, "A command was answered before the history had its records."),
        "history_not_flushed": Word(ERROR, "At the stop some records did not reach the history."),
        "history_misplaced": Word(WARNING, "An earlier version kept the history of this folder elsewhere."),
        "history_not_written": Word(ERROR, "The history cannot be written; executions continue."),
        "history_written_again": Word(INFO, "The history can be written again."),
        "instance_lost": Word(WARNING, "An instance of a service is lost; start it anew.", kind=("service",)),
        "instance_returned": Word(INFO, "A lost instance of a service is there again.", kind=("service",)),
        "job_blocked": Word(WARNING, "A stored job cannot run as settings are now."),
        "job_not_woken": Word(WARNING, "A job that an earlier process left open could not be read yet."),
        "job_paused": Word(WARNING, "The service paused a job."),
        "jobs_moved": Word(INFO, "Jobs went from this node to others."),
        "leases_not_swept": Word(WARNING, "Ended leases of pull queues could not be searched for."),
        "library_failed": Word(ERROR, "A library of this program reports an error.", kind=("logger",)),
        "library_warned": Word(WARNING, "A library of this program, or Python, warns.", kind=("logger",)),
        "lines_omitted": Word(WARNING, "Further lines of one kind came within ten seconds."),
        "listening": Word(INFO, "The service answers."),
        "loop_stalled": Word(WARNING, "The process did nothing else for a while, and firings were late."),
        "loss_not_taken": Word(WARNING, "The loss of an instance could not be delivered to a job."),
        "node_joined": Word(INFO, "Another node of the cluster is there."),
        "node_left": Word(INFO, "Another node of the cluster was stopped."),
        "node_lost": Word(WARNING, "Another node of the cluster is gone without having been stopped."),
        "node_replaced": Word(ERROR, "Another process has taken the name of this node."),
        "node_stalled": Word(ERROR, "This process did not run for a while."),
        "notice_dropped": Word(WARNING, "A target is not told of a cancellation: too many are pending."),
        "observer_failed": Word(ERROR, "What watches the turns met a defect; the turns themselves did not."),
        "older_nodes_awaited": Word(WARNING, "This node takes no turns beside nodes of an older version."),
        "operation_failed": Word(ERROR, "A piece of an operation on many jobs, or its record, met a defect."),
        "part_not_delivered": Word(WARNING, "The end of a part could not be delivered to its job yet."),
        "process_described": Word(
            WARNING, "What a part of the process is doing, asked for by SIGUSR1.", kind=("part",)
        ),
        "queues_not_read": Word(WARNING, "Parts of queues that other nodes have published are not seen."),
        "queues_read_again": Word(INFO, "The queues of the cluster are read again."),
        "rates_not_shared": Word(ERROR, "Rate limits of services are not shared with other nodes."),
        "rates_shared_again": Word(INFO, "Rate limits of services are shared with other nodes again."),
        "ready": Word(INFO, "Jobs fire."),
        "records_changed": Word(ERROR, "A record that no database can hold was changed or left out."),
        "registry_not_shared": Word(ERROR, "Registrations of services are not shared with other nodes."),
        "registry_row_skipped": Word(
            WARNING, "What another node wrote of itself or of an instance is unreadable."
        ),
        "registry_shared_again": Word(INFO, "Registrations of services are shared with other nodes again."),
        "reminder_not_removed": Word(WARNING, "A reminder stays; it has no effect."),
        "reminder_not_set": Word(WARNING, "A reminder could not be registered; it is tried again."),
        "request_answered": Word(INFO, "A caller's request, where log.access is set.", is_asked_for=True),
        "requests_failed": Word(ERROR, "Requests met a fault of this program and were answered 500."),
        "requests_malformed": Word(WARNING, "Requests of callers could not be parsed."),
        "retries_exhausted": Word(
            WARNING,
            "An execution failed, and its retries are used up.",
            kind=("target", "error"),
            lines=ENDINGS,
        ),
        "review_not_completed": Word(
            WARNING, "Not all jobs were looked at after settings changed; the next start does it."
        ),
        "sender_failed": Word(ERROR, "The sending of a request met a defect."),
        "sidecar_awaited": Word(WARNING, "The start waits for daprd or what it needs."),
        "sidecar_changed": Word(WARNING, "Something came or went that this node needs."),
        "spans_dropped": Word(WARNING, "Spans of traces reach no collector.", kind=("reason",)),
        "start_delayed": Word(WARNING, "The system jobs could not be created yet; it is tried again."),
        "state_restored": Word(WARNING, "A job of the catalogue had no state and was created again."),
        "stopped": Word(INFO, "The last line of the service."),
        "store_failed": Word(
            ERROR, "The store failed requests: they were answered 503, events with `label` became a gap."
        ),
        "store_not_written": Word(ERROR, "The files of the jobs cannot be written; no job goes on."),
        "store_written_again": Word(INFO, "The files of the jobs can be written again."),
        "sweep_failed": Word(WARNING, "The search for overdue jobs failed; it is repeated."),
        "sweep_repeated": Word(INFO, "The search for overdue jobs works again."),
        "task_failed": Word(
            ERROR, "Work of the service met a defect; it begins again in a second.", kind=("task",)
        ),
        "traces_exported_again": Word(INFO, "The collector of traces takes spans again."),
        "traces_not_exported": Word(WARNING, "The collector of traces does not take spans."),
        "trials_ended_again": Word(INFO, "Trials that are over are removed again."),
        "trials_not_ended": Word(WARNING, "Trials that are over could not be removed; it is tried again."),
        "trigger_skipped": Word(INFO, "A trigger started no execution.", kind=("reason",)),
        "turn_failed": Word(ERROR, "A turn of a job met a defect, or a state that cannot be read."),
        "turns_lost": Word(ERROR, "Of what an earlier version left a page is damaged: jobs repeat turns."),
        "unsent_not_reported": Word(WARNING, "A job could not be told that its request was held back."),
        "variables_ignored": Word(INFO, "Variables that look like settings are an orchestrator's."),
        "worker_answered": Word(INFO, "A worker process that was silent answers again."),
        "worker_lost": Word(ERROR, "A worker process has ended and is started again."),
        "worker_not_started": Word(ERROR, "A worker process could not be started; it is tried again."),
        "worker_not_stopped": Word(WARNING, "A worker process did not stop within the time and was killed."),
        "worker_restarted": Word(INFO, "A worker process runs again."),
        "worker_stalled": Word(WARNING, "A worker process does not answer; it is killed if that lasts."),
        "worker_stuck": Word(ERROR, "A worker process did not answer and was killed."),
    }
)
"""Every word that the service writes, by name; `docs/logs.md` has their keys and remedies."""
