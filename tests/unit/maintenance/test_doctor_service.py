"""The port of a service: free, taken by something else, or by a Punctual that says how it is."""

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from scheduler_service import __version__
from scheduler_service.maintenance.doctor_findings import LARGEST_ANSWER
from scheduler_service.maintenance.doctor_service import CALENDARS, examine_service
from tests.http_program import Asked, HttpProgram, Said
from tests.ports import free_port
from tests.unit.maintenance.subjects import states, subject


@contextmanager
def answering(
    answers: dict[str, tuple[int, object]],
    headers: Mapping[str, str] | None = None,
    *,
    asked: list[tuple[str, str | None]] | None = None,
) -> Iterator[int]:
    """The port of a server with these answers by path, 404 elsewhere.

    `asked` gets each path with the `Authorization` that came with it.
    """

    def answer(one: Asked) -> Said:
        status, body = answers.get(one.path, (404, {}))
        if asked is not None:
            asked.append((one.path, one.headers["Authorization"]))
        return Said(status, body if isinstance(body, bytes) else json.dumps(body).encode(), headers or {})

    with HttpProgram(answer) as program:
        yield program.port


def of_punctual(**changed: tuple[int, object]) -> dict[str, tuple[int, object]]:
    """The answers of a service in order; `live`, `ready` and `nodes` replace them."""
    live = {"data": {"status": "live", "version": __version__}}
    answers: dict[str, tuple[int, object]] = {"live": (200, live), "ready": (200, {}), "nodes": (200, {})}
    answers |= changed
    return {
        "/health/live": answers["live"],
        "/health/ready": answers["ready"],
        "/nodes": answers["nodes"],
        "/counts/jobs": answers.get("counts", (200, {})),
        CALENDARS: answers.get("calendars", (404, {})),
    }


async def test_a_free_port() -> None:
    """Nothing runs, and nothing is wrong with that."""
    port = free_port()
    assert states(await examine_service(subject(server__port=port))) == {"port": "ok"}
    assert states(await examine_service(subject(server__port=0))) == {"port": "ok"}


async def test_a_service_in_order() -> None:
    """Found by the port of the settings, without being named."""
    with answering(of_punctual()) as port:
        found = states(await examine_service(subject(server__port=port)))
    assert found == dict.fromkeys(("answer", "version", "ready", "key", "the service"), "ok")


async def test_a_service_that_is_not_ready_says_why() -> None:
    """In its own words."""
    with answering(of_punctual(ready=(503, {"detail": "not ready yet: store"}))) as port:
        findings = await examine_service(subject(server__port=port))
    (one,) = (one for one in findings if one.check == "ready")
    assert (one.state, one.detail) == ("failed", "not ready yet: store")


async def test_another_version_and_a_missing_key_are_warnings() -> None:
    """The rest is examined all the same."""
    other = (200, {"data": {"version": "0.0.1"}})
    with answering(of_punctual(live=other, nodes=(401, {}))) as port:
        found = states(await examine_service(subject(server__port=port)))
    assert (found["version"], found["key"], found["ready"]) == ("warning", "warning", "ok")


async def test_something_else_on_the_port_is_named() -> None:
    """By its status and server."""
    with answering({}) as port:
        findings = await examine_service(subject(server__port=port))
    (one,) = findings
    assert (one.state, "status 404" in one.detail) == ("failed", True)


async def test_an_answer_that_is_nested_too_deep_is_something_else() -> None:
    """No stack trace."""
    with answering({"/health/live": (200, b"[" * 200_000)}) as port:
        assert states(await examine_service(subject(server__port=port)))["answer"] == "failed"


async def test_an_answer_without_end_is_left() -> None:
    """After a MiB, whatever it says and however it is packed."""
    packed = gzip.compress(b" " * (64 * LARGEST_ANSWER))
    for body, headers in ((b" " * (LARGEST_ANSWER + 1), {}), (packed, {"Content-Encoding": "gzip"})):
        with answering({"/health/live": (200, body)}, headers) as port:
            [found] = await examine_service(subject(server__port=port))
            assert found.state == "failed"
            assert "more than 1 MiB" in found.detail


async def test_the_key_is_not_shown_to_another_program() -> None:
    """Only where a service says that it is one."""
    asked: list[tuple[str, str | None]] = []
    key = "key-of-the-service-that-nobody-may-see"
    with answering({"/health/live": (200, {})}, asked=asked) as port:
        await examine_service(subject(server__port=port, server__key=key))
    with answering(of_punctual(), asked=asked) as port:
        await examine_service(subject(server__port=port, server__key=key))
    shown = [path for path, authorization in asked if authorization is not None]
    alive, ready = "/health/live", "/health/ready"
    with_key = ["/nodes", "/counts/jobs", CALENDARS]
    assert [path for path, _ in asked] == [alive, alive, ready, *with_key]
    assert shown == with_key


async def test_jobs_that_cannot_run_are_named() -> None:
    """The first of them, each with its reason, and how many more there are."""
    named = [{"jobId": "shop", "problem": "no variable SHOP"}]
    counts = {"data": {"cannotRun": 3, "cannotRunJobs": named}}
    with answering(of_punctual(counts=(200, counts))) as port:
        findings = await examine_service(subject(server__port=port))
    told = {one.check: (one.state, one.detail) for one in findings if one.check.startswith("job")}
    assert told == {
        "job shop": ("warning", "it cannot run: no variable SHOP"),
        "jobs": ("warning", "2 more cannot run"),
    }


async def test_a_calendar_without_the_current_year_is_named() -> None:
    """As the list of the service warns."""
    warning = {"pointer": "/items/1/free", "message": "office: it has no day of 2026"}
    listed = {"data": {"items": [{"name": "plain"}, {"name": "office"}]}, "warnings": [warning]}
    with answering(of_punctual(calendars=(200, listed))) as port:
        findings = await examine_service(subject(server__port=port))
    (told,) = (one for one in findings if one.check.startswith("calendar"))
    assert (told.check, told.state, told.detail) == ("calendar office", "warning", "it has no day of 2026")


async def test_a_date_that_no_clock_has_is_none() -> None:
    """The header is a stranger's."""
    date = {"Date": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}
    with answering(of_punctual(), date) as port:
        assert "failed" not in states(await examine_service(subject(server__port=port))).values()


async def test_an_address_that_was_named_must_answer() -> None:
    """Also one that is none."""
    for url in (f"http://127.0.0.1:{free_port()}", "http://[", "nonsense"):
        found = states(await examine_service(msgspec.structs.replace(subject(), url=url)))
        assert found == {"answer": "failed"}


async def test_an_address_of_another_machine_cannot_be_served() -> None:
    """TEST-NET-1 is nobody's (RFC 5737)."""
    found = await examine_service(subject(server__host="192.0.2.1", server__key="k" * 16))
    assert states(found) == {"port": "failed"}
