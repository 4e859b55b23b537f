"""The system jobs: jobs of tenant `default` whose one step is `system://NAME` (SPEC section 11)."""

import json
from collections.abc import Awaitable, Callable, Mapping

from scheduler_service.domain.audit_acts import OwnAct, act_of_system
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.replies import Refusal
from scheduler_service.domain.turn_events import Created, Updated
from scheduler_service.domain.wire import Answer
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.delivery import Command, Compile, Definition, Deliver
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings

CHECK_TIMERS, CLEAN, OUTBOX = "check-timers", "clean", "outbox"
START = act_of_system(OwnAct.START)
"""What a start changes, as the settings say."""
FOLLOWS = "follows"
"""The label of `check-timers` that says from which settings, zones and program stored moments follow."""
NAMES = {
    CHECK_TIMERS: "Brings jobs to what services declare",
    CLEAN: "Removes history that need not be kept any more",
    OUTBOX: "Sends notifications of the outbox again",
}


def system_definitions(settings: Settings, follows: str = "") -> list[bytes]:
    """The definitions of the system jobs, as they are posted; `follows` is a label of `check-timers`."""
    periods = {
        CHECK_TIMERS: settings.services.check_timers_seconds,
        CLEAN: settings.history.clean_seconds,
        OUTBOX: settings.notification.outbox_seconds,
    }
    return [
        _define(name, seconds, follows if name == CHECK_TIMERS else "") for name, seconds in periods.items()
    ]


async def install(deliver: Deliver, compile_text: Compile, settings: Settings, follows: str = "") -> None:
    """Creates the system jobs, or brings them to what the settings say now. Raises StoreError."""
    for text in system_definitions(settings, follows):
        definition = Definition(text, await compile_text(text, DEFAULT_TENANT))
        job_id = definition.program.job_id
        reply = await deliver(job_id, Command(Created(uid="", key=b""), definition, act=START))
        if isinstance(reply, Refusal):
            await deliver(job_id, Command(Updated(0), definition, act=START))


async def patiently(work: Callable[[], Awaitable[None]], *, clock: Timekeeper, log: Log) -> None:
    """Does work of the start that may be repeated, again each second for a minute. Raises StoreError."""
    end = clock.now().steady + MINUTE
    while True:
        try:
            await work()
        except StoreError as error:
            if clock.now().steady >= end:
                raise
            log("start_delayed", error=str(error))
            await clock.sleep(SECOND)
        else:
            return


def as_function(work: Callable[[], Awaitable[Mapping[str, int]]]) -> Callable[[], Awaitable[Answer]]:
    """A piece of work as the target of `system://NAME`: its figures are the answer."""

    async def call() -> Answer:
        figures = await work()
        headers = (("content-type", "application/json"),)
        return Answer(status=200, headers=headers, body=json.dumps(dict(figures)).encode())

    return call


def _define(name: str, seconds: float, follows: str) -> bytes:
    period = f"{round(seconds * 1000)}ms"
    definition: dict[str, object] = {
        "jobId": name,
        "jobName": NAMES[name],
        "creator": "system",
        "creatorName": "Punctual",
        "timer": {"dueTime": period, "period": period},
        "request": [{"method": "POST", "url": f"system://{name}"}],
        "historyDetail": "none",
        # Who triggers it while it runs wants what it has not seen yet.
        "overlapPolicy": "queue",
        "queueLimit": 1,
    }
    if follows:
        definition["labels"] = {FOLLOWS: follows}
    return json.dumps(definition).encode()
