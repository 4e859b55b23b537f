"""The instance in the registry: register, heartbeat, drain, deregister (SPEC section 13)."""

import asyncio

import httpx
import pytest

from client_sdk.signing import Verifier
from client_sdk.target import job
from client_sdk.target.service import name_instance
from tests.unit.client_sdk.lines import serving
from tests.unit.client_sdk.registry import registered
from tests.unit.client_sdk.target.called_service import Held


@job(job_id="first")
def first() -> None: ...


@job(job_id="second")
def second() -> None: ...


async def test_heartbeats_and_registrations_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """A heartbeat each time, in full every so often; begin and end are logged once each at INFO."""
    caplog.set_level("INFO", "client_sdk")
    async with registered(jobs=[first, second]) as (service, registry):
        await service.start()
        await registry.until(lambda: registry.told.count("instance") >= 3)
        told = " ".join(registry.told)
        assert told.startswith("instance heartbeat heartbeat instance heartbeat heartbeat instance")
        assert not any(beat.draining for _, beat in registry.heartbeats)
        await service.stop()
        assert registry.told[-1] == "deregistered"
        assert ("draining" in registry.told, registry.instances) == (True, {})
    said = [one.getMessage() for one in caplog.records if one.levelname == "INFO"]
    assert said == [
        "reports/one is registered at http://10.0.0.7:9000 with 2 jobs",
        "reports/one drains: 0 executions run, up to 30 s",
        "reports/one has drained",
    ]
    # Its setting wins over the 3 s of the contract, unless the service was told otherwise
    async with registered(heartbeat_seconds=None, registration_seconds=1_000) as (service, registry):
        registry.heartbeat_seconds = 0.001
        await service.start()
        await registry.until(lambda: registry.told.count("heartbeat") >= 30)


async def test_a_scheduler_that_forgot_is_told_again() -> None:
    """It was started anew: the next heartbeat registers, with the jobs."""
    async with registered(registration_seconds=1_000) as (service, registry):
        await service.start()
        registry.instances.clear()
        await registry.until(lambda: registry.instances)
        assert registry.told.count("instance") == 2


async def test_a_forgotten_instance_that_drains_registers_again() -> None:
    """While it works, as its work counts as lost else; it declares no jobs and takes no new work."""
    long = Held()
    jobs = [job(job_id="long")(long.run)]
    async with registered(jobs=jobs) as (service, registry), serving(service) as url:
        await service.start()
        async with httpx.AsyncClient(base_url=url) as http:
            call = asyncio.create_task(http.post("/punctual/jobs/long", json={}))
            await long.begun.wait()
            stop = asyncio.create_task(service.stop())
            await registry.until(lambda: "draining" in registry.told)
            registry.instances.clear()
            registry.told.clear()
            await registry.until(lambda: registry.told.count("draining") >= 2)
            assert registry.told[:2] == ["instance", "draining"]
            assert registry.instances["one"].timers is None
            long.go.set()
            assert (await call).status_code == 200
            await stop
        assert registry.told[-1] == "deregistered"
    # A scheduler that forgot it need not hear of it: nothing of it can be lost
    async with registered(heartbeat_seconds=1_000) as (service, registry):
        await service.start()
        registry.instances.clear()
        await service.stop()
        assert registry.told == ["instance"]


async def test_a_scheduler_that_is_not_there_yet_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """The service starts; as soon as somebody answers it is registered. It is said once, not each time."""
    async with registered() as (service, registry):
        registry.is_down = True
        await service.start()
        await registry.until(lambda: registry.told.count("missed") >= 5)
        registry.is_down = False
        await registry.until(lambda: "instance" in registry.told)
        assert sum("failed" in record.message for record in caplog.records) == 1
    # It ends all the same
    async with registered() as (service, registry):
        await service.start()
        registry.is_down = True
        await service.stop()
    # Two of one machine differ
    assert name_instance() != name_instance()


async def test_warnings_about_declared_jobs_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """However often it registers; the log says which job and what to do (SPEC section 3)."""
    async with registered(jobs=[first]) as (service, registry):
        message = "dueTime '1h' is ignored: the timer is external; write 0s"
        pointer = "/timers/0/timer/dueTime"
        registry.warnings = [{"pointer": pointer, "code": "due_time_ignored", "message": message}]
        await service.start()
        await registry.until(lambda: registry.told.count("instance") >= 3)
        said = [record.getMessage() for record in caplog.records if "ignored" in record.getMessage()]
        assert said == ["declared jobs of reports: job first: /timer/dueTime: " + message]


async def test_a_refused_registration_names_its_jobs(caplog: pytest.LogCaptureFixture) -> None:
    """Each with what is wrong with it; once, and again when that changes."""
    async with registered(jobs=[first, second]) as (service, registry):
        registry.refusals = [
            {"pointer": "/timers/0/timer/period", "code": "invalid", "message": "'blah' is not a period"},
            {"pointer": "/timers/1", "code": "invalid", "message": "no"},
            {"pointer": "/tags/0", "code": "invalid", "message": "too long"},
        ]
        await service.start()
        await registry.until(lambda: registry.told.count("refused") >= 3)
        said = "no job of reports was changed, its registration is refused: "
        first_said = "job first: /timer/period: 'blah' is not a period; job second: /: no; /tags/0: too long"
        assert errors(caplog) == [said + first_said]
        registry.refusals = [{"pointer": "/timers/1/retry", "code": "invalid", "message": "none"}]
        await registry.until(lambda: registry.told.count("refused") >= 8)
        assert errors(caplog)[1:] == [said + "job second: /retry: none"]
        registry.refusals = []
        await registry.until(lambda: "instance" in registry.told)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


async def test_a_service_without_a_verifier_says_who_may_call(caplog: pytest.LogCaptureFixture) -> None:
    """At each start, once."""
    for options, begin in (
        ({}, "reports takes calls from this machine alone below /punctual: they are not signed"),
        ({"allow_unsigned": True}, "the jobs of reports are open: allow_unsigned lets whoever"),
    ):
        async with registered(**options) as (service, _):
            await service.start()
            [said] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
            assert said.startswith(begin)
            caplog.clear()
    async with registered(verifier=Verifier("c2VjcmV0LW9mLTI0LWJ5dGVzLWlzLWdvb2Q=")) as (service, _):
        await service.start()
        assert caplog.records == []
