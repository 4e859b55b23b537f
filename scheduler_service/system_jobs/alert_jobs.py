"""The jobs that send alerts, one for each: deliveries are those of notifications (SPEC section 7).

A message is a trigger under a key of its own: it is accepted once, also when it is repeated after a crash,
and its notification is delivered as with qos 1, be it by the outbox.
"""

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from urllib.parse import quote

from client_sdk.models import ModelError, parse_definition
from scheduler_service.domain.errors import DefinitionError, Problem
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import ALERTS, DEFAULT_TENANT
from scheduler_service.domain.replies import Refusal
from scheduler_service.domain.turn_events import Activated, Created, Paused, Triggered, Updated
from scheduler_service.domain.wire import Answer
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings
from scheduler_service.engine.warnings import find_missing_secrets, missing_secret
from scheduler_service.hosts.chat_robots import ChatRobot, RobotPace, Robots
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry, JobQuery
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Command, Compile, Definition, Deliver
from scheduler_service.ports.errors import StateUnreadable
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import Secrets
from scheduler_service.ports.state import Remembered
from scheduler_service.security.name_masks import hide_query
from scheduler_service.services.reconcile import ReadJob
from scheduler_service.settings import Settings
from scheduler_service.settings.alert_settings import Alert
from scheduler_service.system_jobs.system_job_definitions import NAMES, START
from scheduler_service.telemetry.alerts.alert_receivers import RECEIVERS

SEND = "alert"
"""The step of these jobs, `system://alert`, which does nothing: what is sent is their notification."""
FORMATTED = "formatted"
"""The member of a message that a chat is sent."""
HIDDEN = "***"
PAGE = 200
UNDECLARED = "undeclared"
"""Why the job of an alert that has left the settings is paused: as one that its service has left out."""
_PLACE = "/notification/0"


async def accept() -> Answer:
    """`system://alert`."""
    return Answer(status=200, headers=(("content-type", "application/json"),), body=b"{}")


def job_of(name: str) -> str:
    """The id of the job that sends this alert."""
    return ALERTS + name


def jobs_of(settings: Settings) -> frozenset[str]:
    """The ids of all jobs that send alerts."""
    return frozenset(job_of(alert.name) for alert in settings.alerts)


def made_here(settings: Settings) -> frozenset[str]:
    """The ids of all jobs that the product makes: those of the system, and those that send alerts."""
    return frozenset(NAMES) | jobs_of(settings)


def headers_of(settings: Settings) -> dict[str, dict[str, str]]:
    """By the id of their jobs the headers that alerts send, as they are."""
    return {job_of(alert.name): alert.headers for alert in settings.alerts if alert.headers}


def urls_of(settings: Settings) -> dict[str, str]:
    """By the id of their jobs the addresses of alerts that are not shown as they are."""
    return {job_of(alert.name): alert.url for alert in settings.alerts if hide_query(alert.url) != alert.url}


def chats_of(settings: Settings) -> dict[str, str]:
    """By the id of their jobs the names of the alerts that robots of chats take."""
    return {job_of(alert.name): alert.name for alert in settings.alerts if alert.format in RECEIVERS}


def robots_of(settings: Settings, secrets: Secrets, clock: Clock) -> Robots:
    """The robots of the alerts; those with one address are one robot, with one pace."""
    paces: dict[str, RobotPace] = {}
    robots = {}
    for alert in settings.alerts:
        receiver = RECEIVERS.get(alert.format)
        if receiver is not None:
            pace = paces.setdefault(alert.url, RobotPace(receiver.limits))
            robots[alert.name] = ChatRobot(
                receiver=receiver,
                pace=pace,
                clock=clock,
                secret=alert.secret or "",
                find_secret=_secret_of(alert, secrets),
            )
    return robots


def _secret_of(alert: Alert, secrets: Secrets) -> Callable[[], str | None] | None:
    """The one that signs, as it is when it is asked for."""
    name = alert.secret_name
    if name is not None:
        return lambda: next(iter(secrets.find(DEFAULT_TENANT, name)), None)
    return None if alert.secret is None else lambda: alert.secret


def finish(alert: Alert, message: Mapping[str, object], base: str | None) -> dict[str, object]:
    """The message as it is handed on: with its link into the console at `base`, and as its chat has it."""
    linked = {**message, "link": None if base is None else link_of(message, base)}
    receiver = RECEIVERS.get(alert.format)
    if receiver is None or alert.has_body:
        return linked
    return {**linked, FORMATTED: receiver.write(linked)}


def link_of(message: Mapping[str, object], base: str) -> str:
    """The page of the console about an execution, else a job, else all that is open."""
    place = "alerts"
    for member, page in (("executionId", "executions"), ("jobId", "jobs")):
        if message.get(member):
            place = f"{page}/{quote(str(message[member]), safe='')}"
            break
    return f"{base.rstrip('/')}/console/#/{place}"


def find_troubles(settings: Settings, surroundings: Surroundings) -> dict[str, str]:
    """By name each alert that cannot be sent now, and why: its url, a template, a header, a secret."""
    found = {}
    for place, alert in enumerate(settings.alerts):
        try:
            described = _describe(alert, alert.url, alert.headers)
            definition = parse_definition(described, is_json=True)
            program = compile_definition(definition, surroundings, system=True).program
            problems = list(find_missing_secrets(program))
            name, has_secret = alert.secret_name, surroundings.has_secret
            if name is not None and has_secret is not None and not has_secret(DEFAULT_TENANT, name):
                problems.append(missing_secret("/secret", name))
        except (DefinitionError, ModelError) as error:
            problems = [Problem(one.pointer, one.code, one.message) for one in error.problems]
        if problems:
            member = problems[0].pointer.removeprefix(_PLACE).strip("/").replace("/", ".")
            found[alert.name] = f"alerts.{place}.{member}: {problems[0].message}"
    return found


class AlertJobs:
    """Creates the jobs of the settings' alerts, pauses those of earlier ones, and hands messages to them.

    `troubles`: why an alert cannot be sent now, by its name (`find_troubles`).
    """

    def __init__(
        self,
        *,
        settings: Settings,
        troubles: Callable[[], Mapping[str, str]],
        deliver: Deliver,
        compile_text: Compile,
        catalogue: Catalogue,
        read_job: ReadJob,
        clock: Clock,
        log: Log,
    ) -> None:
        self._alerts = settings.alerts
        self._find_troubles = troubles
        self._taken: dict[str, str] = {}
        self._deliver = deliver
        self._compile = compile_text
        self._catalogue = catalogue
        self._read_job = read_job
        self._clock = clock
        self._log = log

    @property
    def troubles(self) -> Mapping[str, str]:
        """Why alerts cannot be sent now, also as the start found their ids taken."""
        return {**self._find_troubles(), **self._taken}

    async def install(self) -> None:
        """Brings the jobs to what the settings say. Raises StoreError.

        An alert whose job is damaged, or whose id a job of somebody else has, is logged and left alone: the
        service and the other alerts go on.
        """
        for alert in self._alerts:
            try:
                await self._install(alert)
            except StateUnreadable as error:
                self._log("alert_damaged", alert=alert.name, error=str(error))
        for name, trouble in self.troubles.items():
            self._log("alert_not_sent", alert=name, error=trouble)

    async def _install(self, alert: Alert) -> None:
        text = define(alert)
        definition = Definition(text, await self._compile(text, DEFAULT_TENANT))
        job_id = job_of(alert.name)
        known = await self._catalogue.get(job_id)
        if known is not None and not known.system:
            self._taken[alert.name] = f"a job has the id {job_id!r}; give the alert another name"
            return
        reply = await self._deliver(job_id, Command(Created(uid="", key=b""), definition, act=START))
        if isinstance(reply, Refusal):
            await self._deliver(job_id, Command(Updated(0), definition, act=START))
        if await self._is_back(known):
            await self._deliver(job_id, Command(Activated(), act=START))

    async def retire(self) -> None:
        """Pauses the jobs of alerts that are no longer in the settings. Raises StoreError.

        What of theirs is in the outbox is still delivered, or dismissed.
        """
        wanted, cursor = {job_of(alert.name) for alert in self._alerts}, None
        while True:
            page = await self._catalogue.list(
                JobQuery(states=(JobState.ACTIVE,), system=True, limit=PAGE, cursor=cursor)
            )
            for entry in page.items:
                if entry.job_id.startswith(ALERTS) and entry.job_id not in wanted:
                    await self._retire(entry.job_id)
            if page.next_cursor is None:
                return
            cursor = page.next_cursor

    async def _retire(self, job_id: str) -> None:
        name = job_id.removeprefix(ALERTS)
        try:
            await self._deliver(job_id, Command(Paused(drain=True, reason=UNDECLARED), act=START))
        except StateUnreadable as error:
            self._log("alert_damaged", alert=name, error=str(error))
        else:
            self._log("alert_paused", alert=name)

    async def _is_back(self, known: CatalogueEntry | None) -> bool:
        """Whether the alert was paused for having left the settings, and not by a person."""
        if known is None or known.state is not JobState.PAUSED:
            return False
        job = await self._read_job(known.job_id)
        document = None if job is None else job.document
        return document is not None and document.head.pause_reason == UNDECLARED

    async def send(self, name: str, key: str, body: bytes) -> bool:
        """Hands one message to its job, once under `key`; False: it was refused. Raises StoreError."""
        if name in self._taken:  # the job is somebody else's
            return False
        now = self._clock.now().wall
        # By the key, which is made of what is said: how that is written may be another after a restart.
        remembered = Remembered(f"alerts/{name}", key, sha256(key.encode()).digest(), b"", now)
        command = Command(Triggered(params=body), remembered=remembered, answer=lambda _: b"{}")
        try:
            reply = await self._deliver(job_of(name), command)
        except StateUnreadable as error:  # the other alerts go on
            self._log("alert_damaged", alert=name, error=str(error))
            return False
        if isinstance(reply, Refusal):
            self._log("alert_refused", alert=name, error=reply.message)
            return False
        return True


def define(alert: Alert) -> bytes:
    """The definition of the job that sends this alert, as it is stored and shown: without values of headers,
    and without the query of the address.

    What is sent has those of `headers_of` and `urls_of`.
    """
    headers = dict.fromkeys(alert.headers, HIDDEN)
    return json.dumps(_describe(alert, hide_query(alert.url), headers)).encode()


def _body_of(alert: Alert) -> object:
    if alert.has_body:
        return alert.body
    return "${trigger}|json" if alert.format not in RECEIVERS else f"${{trigger.{FORMATTED}}}|json"


def _describe(alert: Alert, url: str, headers: Mapping[str, str]) -> dict[str, object]:
    entry: Mapping[str, object] = {
        "name": alert.name,
        "method": alert.method,
        "url": url,
        "headers": headers,
        "body": _body_of(alert),
        "stateEquals": "finalSucceed",
        "sign": alert.sign,
        "successWhen": alert.success_when,
        "errorFrom": alert.error_from,
        "messageFrom": alert.message_from,
    }
    return {
        "jobId": job_of(alert.name),
        "jobName": f"Sends the alert {alert.name}",
        "creator": "system",
        "creatorName": "Punctual",
        "timer": {"period": "external"},
        "request": [{"method": "POST", "url": f"system://{SEND}"}],
        "notification": [entry],
        "qos": 1,
        "overlapPolicy": "allow",
        "historyDetail": "none",
    }
