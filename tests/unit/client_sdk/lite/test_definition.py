"""What of a definition a job without a server can honour (SPEC section 16)."""

from typing import Any

import pytest

from client_sdk import job
from client_sdk.errors import Invalid
from client_sdk.lite import DefinitionRefused, LiteJob
from tests.rows import each_row
from tests.unit.client_sdk.lite.definitions import chain
from tests.wire.target import Reply, Target


async def test_timer_and_qos_are_refused(target: Target) -> None:
    """As is whatever needs instances; everything that is wrong is said at once, with its pointer."""
    posted = chain(target.url) | {"timer": {"period": "5m"}, "qos": 1}
    posted["request"] = [{"url": "http://a/b", "route": "shard", "priority": 1}]
    with pytest.raises(DefinitionRefused, match="needs a server") as caught:
        LiteJob(posted)
    pointers = [(flaw.pointer, flaw.code) for flaw in caught.value.errors]
    assert pointers == [
        (pointer, "needs_server") for pointer in ("/timer", "/qos", "/request/0/route", "/request/0/priority")
    ]
    for wrong in ({"colour": "blue"}, {"request": [{"url": "http://x/${nowhere("}]}, {"request": []}):
        with pytest.raises(DefinitionRefused):
            LiteJob(chain(target.url) | wrong)


@each_row(
    ("members", "pointer", "said"),
    [
        ({"leadSeconds": 3}, "/leadSeconds", "no timer fires here"),
        ({"historyDetail": "all"}, "/historyDetail", "there is no history here"),
        ({"parentJob": "p", "parentJobExecution": 1}, "/parentJob", "children"),
        (
            {"notification": [{"url": "http://x/", "guarantee": "outbox"}]},
            "/notification/0/guarantee",
            "outbox",
        ),
        (
            {"request": [{"url": "http://x/", "body": {"to": ["${schedulingFeedbackUrl}"]}}]},
            "/request/0",
            "a feedback URL leads to an address that nobody serves",
        ),
        (
            {"async": True, "checkUrl": "http://x/?to=${ schedulingFeedbackUrlExternal }"},
            "/checkUrl",
            "leave it out, give feedback_url and hand what is posted there to LiteJob.feedback",
        ),
        (
            {"async": True, "timeoutSeconds": 0},
            "/timeoutSeconds",
            "give a limit, add checkUrl, or give feedback",
        ),
        ({"request": [{"url": "queue://work"}]}, "/request/0/url", "from which instances claim"),
        ({"request": [{"url": "Queue://work"}]}, "/request/0/url", "from which instances claim"),
    ],
)
def test_what_a_process_alone_cannot_keep_is_refused(
    members: dict[str, Any], pointer: str, said: str
) -> None:
    """Nothing is silently ignored; each is named, with what to do."""
    with pytest.raises(DefinitionRefused) as caught:
        LiteJob(chain("http://target.test") | members)
    first = caught.value.errors[0]
    assert (first.pointer, first.code) == (pointer, "needs_server")
    assert said in first.message


def test_feedback_is_taken_where_the_caller_serves_it() -> None:
    """Then nothing of it is refused; neither is a text that only looks like a feedback URL, nor a check."""
    step = {"url": "http://x/", "headers": {"To": "${schedulingFeedbackUrl}"}}
    endless = {"async": True, "timeoutSeconds": 0, "request": [step]}
    assert LiteJob(endless, feedback_url="http://me.test")
    assert LiteJob(endless | {"request": [{"url": "http://x/"}], "checkUrl": "http://x/check"})
    assert LiteJob({"request": [{"url": "http://x/", "body": "$${schedulingFeedbackUrl}"}]})


async def test_what_nothing_has_to_keep_is_taken(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing fires by itself here, so a job that must not do so runs when it is told to."""
    quiet = {"active": 0, "startPolicy": "manual", "labels": {"a": "b"}, "objectId": "o"}
    async with LiteJob(chain(target.url) | quiet | {"request": [{"url": f"{target.url}/run"}]}) as lite:
        assert (await lite.run()).state == "succeeded"
    # It is refused as the service refuses a trigger
    async with LiteJob(chain(target.url) | {"disabled": True}) as lite:
        with pytest.raises(Invalid) as refused:
            await lite.run()
    assert refused.value.errors[0].code == "disabled"
    # Those that a service would answer with
    lite = LiteJob(chain("http://target.test") | {"checkUrl": "http://target.test/check"})
    assert [(one.pointer, one.code) for one in lite.warnings] == [("/checkUrl", "check_ignored")]
    assert [record.getMessage() for record in caplog.records] == [f"/checkUrl: {lite.warnings[0].message}"]


async def test_a_declared_job_is_answered_with_what_to_pass(target: Target) -> None:
    """Its function is called by a service; the request that calls it is one that can be sent from here."""

    @job(job_id="import")
    def fetch(size: int = 1) -> int:
        return size

    with pytest.raises(TypeError) as caught:
        LiteJob(fetch)  # type: ignore[arg-type]
    assert "definition is fetch, a job declared with @job: call the function itself" in str(caught.value)
    posted = {"request": fetch.define("files")["request"]}
    async with LiteJob(posted, services={"files": target.url}) as lite:
        assert (await lite.run({"size": 3})).steps[0].url == f"{target.url}/jobs/import"


async def test_services_have_addresses(target: Target) -> None:
    """`service://name` and `serviceName` go to the address that was given, wherever they stand."""
    definition = {
        "request": [
            {"url": "service://files/run?a=${size}"},
            {"url": "service://main/run", "serviceName": "files"},
        ],
        "async": True,
        "checkUrl": "service://files/check",
        "checkRateSeconds": 0.1,
        "notification": [{"url": "service://files/told", "stateEquals": "finalSucceed"}],
    }
    target.always("/base/check", Reply(body={"status": "succeed"}))
    async with LiteJob(definition, services={"files": f"{target.url}/base/"}) as job:
        assert (await job.run({"size": 1})).state == "succeeded"
    assert [one.path for one in target.seen] == ["/base/run", "/base/main/run", "/base/check", "/base/told"]
    assert target.seen[0].query == {"a": "1"}
    # Before anything is sent; `service:/path` has no owner here
    steps = [{"url": url} for url in ("service://other/run", "service:/run", "http://h/")]
    with pytest.raises(
        DefinitionRefused, match="service 'other' was given in services, it has 'files'"
    ) as caught:
        LiteJob({"request": steps, "checkUrl": {"url": "service://b/"}}, services={"files": "http://h"})
    flaws = [(flaw.pointer, flaw.code) for flaw in caught.value.errors]
    assert flaws == [(f"/{place}/url", "no_instance") for place in ("request/0", "request/1", "checkUrl")]
