"""A damaged job of an alert stops neither the start nor the other alerts."""

import json
from typing import Any

from scheduler_service.app.core_settings import DefinitionCompiler
from scheduler_service.domain.replies import Reply
from scheduler_service.engine.program import Surroundings
from scheduler_service.ports.catalogue import JobPage, JobQuery
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StateUnreadable
from scheduler_service.settings import Settings
from scheduler_service.system_jobs.alert_jobs import AlertJobs, define, find_troubles
from tests.manual_clock import ManualClock


class Jobs:
    """The jobs of a service, of which one is damaged: what was delivered to them, and the log."""

    def __init__(self, *names: str, damaged: str) -> None:
        self.delivered: list[str] = []
        self.lines: list[tuple[str, dict[str, object]]] = []
        self._damaged = damaged
        alerts = [{"name": name, "on": ["failing"], "url": "http://ops.test/"} for name in names]
        settings = Settings.model_validate({"alerts": alerts})
        self.alerts = AlertJobs(
            settings=settings,
            troubles=dict,
            deliver=self._deliver,
            compile_text=DefinitionCompiler(settings=settings, surroundings=Surroundings()).stored,
            catalogue=self,  # type: ignore[arg-type] - two of its reads are all that is asked for
            read_job=self._read,
            clock=ManualClock(),
            log=lambda event, /, **keys: self.lines.append((event, keys)),
        )

    async def get(self, job_id: str) -> None:
        """None is known."""

    async def list(self, query: JobQuery) -> JobPage:
        """None is there."""
        return JobPage(items=())

    async def _deliver(self, job_id: str, command: Command) -> Reply:
        if job_id == self._damaged:
            raise StateUnreadable("its row is damaged")
        self.delivered.append(job_id)
        accepted: Any = None
        return accepted

    async def _read(self, job_id: str) -> None:
        return None


def test_an_alert_is_delivered_when_its_receiver_says_so() -> None:
    """A 200 with an `errcode` is no delivery; a wrong condition is named (SPEC section 4)."""
    alert = {"name": "robot", "on": "finalFailed", "url": "http://ops.test/", "successWhen": "@.errcode == 0"}
    settings = Settings.model_validate({"alerts": [alert | {"errorFrom": "$.errcode"}]})
    (entry,) = json.loads(define(settings.alerts[0]))["notification"]
    assert (entry["successWhen"], entry["errorFrom"]) == ("@.errcode == 0", "$.errcode")
    assert find_troubles(settings, Surroundings()) == {}
    wrong = Settings.model_validate({"alerts": [alert | {"successWhen": "@.errcode = 0"}]})
    (trouble,) = find_troubles(wrong, Surroundings()).values()
    assert trouble.startswith("alerts.0.successWhen: ")


def test_an_alert_whose_secret_does_not_exist_is_named_until_it_does() -> None:
    """In a header, a body, or where its chat is signed."""
    alert = {"name": "robot", "on": "finalFailed", "url": "http://ops.test/"}
    stored: set[str] = set()
    around = Surroundings(has_secret=lambda tenant, name: tenant == "default" and name in stored)
    for members, member in (
        ({"headers": {"X-Key": "${secrets.OPS}"}}, "headers.X-Key"),
        ({"body": {"a": "${secrets.OPS}"}}, "body.a"),
        ({"format": "dingtalk", "secret": "${secrets.OPS}"}, "secret"),
    ):
        settings = Settings.model_validate({"alerts": [alert | members]})
        stored.clear()
        (trouble,) = find_troubles(settings, around).values()
        assert trouble.startswith(f"alerts.0.{member}: there is no secret 'OPS'")
        stored.add("OPS")
        assert find_troubles(settings, around) == {}


async def test_a_damaged_job_is_told_and_the_others_are_made() -> None:
    """The start goes on."""
    jobs = Jobs("one", "two", "three", damaged="alert.two")
    await jobs.alerts.install()
    assert jobs.delivered == ["alert.one", "alert.three"]
    assert jobs.lines == [("alert_damaged", {"alert": "two", "error": "its row is damaged"})]


async def test_a_message_that_a_damaged_job_cannot_take_is_not_said() -> None:
    """So that it is handed over again, and the messages of other alerts are not held up."""
    jobs = Jobs("one", "two", damaged="alert.two")
    assert not await jobs.alerts.send("two", "key", b"{}")
    assert await jobs.alerts.send("one", "key", b"{}")
    assert [event for event, _ in jobs.lines] == ["alert_damaged"]
