"""Previews of timers, templates and retries, without creating anything (SPEC sections 3, 4, 6, 10)."""

from typing import Any

import httpx
import pytest

from scheduler_service.api.statistics import MOST_READ
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.work_thread import large_work_samples
from tests.rows import each_row
from tests.unit.api.world import World, definition, pointers

MINUTELY = {"dueTime": "0s", "period": "0 * * * * ?"}
ROOT = {"a": {"b": "x y/é"}, "list": [1, 2], "up": "..", "next": "http://t.test/2", "bad": "a\nb"}
POLICIES = [
    {"errorEquals": "500", "maxAttempts": 9, "maxIntervalSeconds": 3},
    {"errorEquals": "timeout", "intervalSeconds": 2, "maxAttempts": 1, "jitter": "full"},
]


async def preview(client: httpx.AsyncClient, template: Any, **members: Any) -> httpx.Response:
    return await client.post("/templates/preview", json={"template": template, "root": ROOT} | members)


@each_row(
    ("place", "template", "value"),
    [
        ("body", "${$.a.b}", "x y/é"),
        ("body", {"k": ["${list}|json", "n ${list}", "$${a}", 7]}, {"k": [[1, 2], "n [1,2]", "${a}", 7]}),
        ("body", ["${$..b}"], ['["x y/é"]']),
        ("url", "http://t.test/p/${a.b}?q=${a.b}", "http://t.test/p/x%20y%2F%C3%A9?q=x%20y%2F%C3%A9"),
        ("url", "${BASE}/p", "http://base.test/p"),
        ("header", "v ${a.b}", "v x y/é"),
        ("body", "${jobId} ${executeNumber}", "preview 1"),
    ],
)
async def test_a_template_becomes_what_a_job_would_send(place: str, template: Any, value: Any) -> None:
    """`{template, root, place}` answers `value` (SPEC section 10); the environment counts as in a job."""
    world = World(surroundings=Surroundings(environment={"BASE": "http://base.test"}))
    async with world.client() as client:
        response = await preview(client, template, place=place)
    assert response.status_code == 200, response.text
    assert response.json()["data"] == {"value": value}
    assert response.json()["warnings"] == []


@each_row(
    ("place", "template", "value"),
    [
        ("body", {"k": "${SHOP_TOKEN}"}, {"k": "***"}),
        ("header", "Bearer ${SHOP_TOKEN}", "Bearer ***"),
        ("url", "${BASE}/p?key=${SHOP_TOKEN}", "http://base.test/p?key=***"),
    ],
)
async def test_a_variable_that_names_a_secret_is_not_shown(place: str, template: Any, value: Any) -> None:
    """Viewers preview, too (SPEC section 14)."""
    known = {"BASE": "http://base.test", "SHOP_TOKEN": "canary-4711"}
    world = World(surroundings=Surroundings(environment=known))
    async with world.client() as client:
        response = await preview(client, template, place=place)
    assert response.json()["data"] == {"value": value}


@pytest.mark.parametrize(
    ("template", "place", "errors"),
    [
        ("${nothing}", "body", [("/template", "template")]),
        ("${$.a.none}", "url", [("/template", "template")]),
        ("http://t.test/${$.a.none}", "url", [("/template", "template")]),
        ("http://t.test/${up}", "url", [("/template", "template")]),
        ("http://t.test/${list}|json", "url", [("/template", "invalid")]),
        ("http://${a.b}/", "url", [("/template", "invalid")]),
        ("http://t.test:99999/", "url", [("/template", "invalid")]),
        ("${bad}", "header", [("/template", "template")]),
        ("${list}|json", "header", [("/template", "invalid")]),
        ({"x/y": ["${$.[}", "${schedulingNope}"]}, "body",
         [("/template/x~1y/0", "invalid"), ("/template/x~1y/1", "invalid")]),
        ("${schedulingNotifyBody}", "body", [("/template", "invalid")]),
        (["${a." + "b" * 900 + "}"] * 23, "body", [("/template", "too_many")]),
        ({"a": 1}, "url", [("/template", "type")]),
        (5, "header", [("/template", "type")]),
        ("x", "cookie", [("/place", "choice")]),
        ("${bad}", "url", [("/template", "template")]),
    ],
)  # fmt: skip
async def test_a_template_is_refused_as_a_job_would_refuse_it(
    client: httpx.AsyncClient, template: Any, place: str, errors: list[tuple[str, str]]
) -> None:
    """422 with pointers, also for what a job finds only at run time: there the code is `template`."""
    response = await preview(client, template, place=place)
    assert response.status_code == 422
    assert pointers(response) == errors


@each_row(
    ("place", "template", "root", "value", "codes"),
    [
        ("successWhen", "@.code == 0", {"code": 0}, True, []),
        ("successWhen", "@.code == '0'", {"code": 0}, False, ["text_compared", "other_kind"]),
        ("successWhen", "@.ok", {"ok": False}, True, ["exists_only"]),
        ("successWhen", "@.kode == 0", {"code": 0}, False, ["not_found"]),
        ("successWhen", "@[0] == 1", [1], True, []),
        ("errorFrom", "$.code", {"code": 42}, "42", []),
        ("errorFrom", "$.code", {"code": None}, None, []),
        ("messageFrom", "$.m", {"m": "no stock"}, "no stock", []),
        ("messageFrom", "$.m", "text", None, []),
    ],
)
async def test_a_rule_for_answers_is_tried_on_one(
    place: str, template: str, root: Any, value: Any, codes: list[str]
) -> None:
    """`successWhen` and the others on any JSON, with what is probably a slip (SPEC section 4)."""
    async with World().client() as client:
        answer = await preview(client, template, place=place, root=root)
    assert answer.json()["data"] == {"value": value}
    assert [warning["code"] for warning in answer.json()["warnings"]] == codes


async def test_a_rule_that_cannot_be_read_is_refused(client: httpx.AsyncClient) -> None:
    """As a job would refuse it; templates still need an object."""
    for place, template, root, found in (
        ("successWhen", "@.code = 0", {}, ("/template", "invalid")),
        ("successWhen", 5, {}, ("/template", "type")),
        ("errorFrom", "@.code", {}, ("/template", "invalid")),
        ("successWhen", "@..[?$..[?$..[?@.x]]]", [[[]] * 100] * 100, ("/template", "template")),
        ("body", "${a}", [1], ("/root", "type")),
    ):
        refused = await preview(client, template, place=place, root=root)
        assert (refused.status_code, pointers(refused)) == (422, [found])
    body = definition(request=[{"url": "http://t.test/", "successWhen": "@.code === 0"}])
    assert pointers(await client.post("/jobs/a", json=body)) == [("/request/0/successWhen", "invalid")]
    body = definition(request=[{"url": "http://t.test/", "successWhen": "@.code == '0'"}])
    warned = (await client.post("/jobs/a", json=body)).json()["warnings"]
    assert [(one["pointer"], one["code"]) for one in warned] == [("/request/0/successWhen", "text_compared")]


async def test_what_a_trial_cannot_know_is_said(client: httpx.AsyncClient) -> None:
    """System variables have stand-ins; the origin of a whole URL is judged by the job alone."""
    response = (await preview(client, "${schedulingJobId}/${schedulingRequestCounts}")).json()
    assert response["data"]["value"] == "preview/1"
    assert [warning["code"] for warning in response["warnings"]] == ["stand_in"]
    assert "schedulingJobId, schedulingRequestCounts" in response["warnings"][0]["message"]
    for url in ("${next}", "${a.b}"):
        whole = await preview(client, url, place="url", root=ROOT | {"a": {"b": "/relative"}})
        assert [warning["code"] for warning in whole.json()["warnings"]] == ["origin_not_checked"]


async def test_a_message_has_the_column_of_the_expression(client: httpx.AsyncClient) -> None:
    """The place inside the text, counted from 1, as in the refusal of a job."""
    refused = (await preview(client, "ab ${$.[}")).json()["errors"][0]["message"]
    assert refused.endswith("(column 8)")
    body = definition(request=[{"url": "http://t.test/", "body": "ab ${$.[}"}])
    assert (await client.post("/jobs/a", json=body)).json()["errors"][0]["message"] == refused


async def test_a_known_key_recalls_the_value(client: httpx.AsyncClient) -> None:
    """`Idempotency-Key` is honoured on every POST (SPEC section 10)."""
    key = {"Idempotency-Key": "k"}
    asked = {"template": "${v}", "root": {"v": "1"}}
    for _ in range(2):
        answer = await client.post("/templates/preview", json=asked, headers=key)
        assert answer.json()["data"] == {"value": "1"}
    other = await client.post("/templates/preview", json={"template": "x"}, headers=key)
    assert pointers(other) == [("/Idempotency-Key", "key_reused")]


async def test_a_retry_plan_has_the_waits_and_the_end(client: httpx.AsyncClient) -> None:
    """`GET /jobs/{jobId}/retry-plan?error=`: which policy, after which wait, when, and why it ends."""
    await client.post("/jobs/a", json=definition(retry=POLICIES, maxRetries=4))
    plan = (await client.get("/jobs/a/retry-plan?error=500")).json()["data"]
    assert [(one["retry"], one["policy"], one["waitMs"], one["afterMs"]) for one in plan["items"]] == [
        (1, 0, 1_000, 1_000),
        (2, 0, 2_000, 3_000),
        (3, 0, 3_000, 6_000),
        (4, 0, 3_000, 9_000),
    ]
    assert (plan["error"], plan["reason"]) == ("500", "limit")
    for error, reason in [("404", "no_policy"), ("lost", "never_retried"), ("egress", "no_policy")]:
        plan = (await client.get(f"/jobs/a/retry-plan?error={error}")).json()["data"]
        assert (plan["items"], plan["reason"]) == ([], reason)
    # 404 without the job, 422 without the error code
    assert (await client.get("/jobs/none/retry-plan?error=500")).status_code == 404
    await client.post("/jobs/a", json=definition())
    assert pointers(await client.get("/jobs/a/retry-plan"))[0][0] == "/error"


async def test_a_retry_plan_uses_the_error_of_a_timeout(client: httpx.AsyncClient) -> None:
    """A synchronous attempt raises `500` and may fall to `timeout`, an asynchronous one `timeout` (5)."""
    await client.post("/jobs/sync", json=definition(retry=POLICIES))
    await client.post("/jobs/falls", json=definition(retry=POLICIES[1:]))
    await client.post("/jobs/async", json=definition(retry=POLICIES, **{"async": True}))
    found = {}
    for job in ("sync", "falls", "async"):
        plan = (await client.get(f"/jobs/{job}/retry-plan?error=timeout")).json()["data"]
        found[job] = (plan["error"], [(one["waitMs"], one["jitter"]) for one in plan["items"]])
    assert found["sync"] == ("500", [(1_000, "none"), (2_000, "none")] + [(3_000, "none")] * 3)
    assert found["falls"] == ("500", [(2_000, "full")])
    assert found["async"] == ("timeout", [(2_000, "full")])


async def test_a_timer_is_previewed_without_a_job(client: httpx.AsyncClient) -> None:
    """`{timer, from, count}`; `until`: all between two moments (SPEC sections 3, 10)."""
    asked = {"timer": {"dueTime": "10s", "period": "R4/PT3S"}, "from": "2026-01-01T00:00:00Z"}
    shown = (await client.post("/timers/preview", json=asked)).json()["data"]
    assert [one["utc"][-7:-1] for one in shown["firings"]] == ["10.000", "13.000", "16.000", "19.000"]
    asked["until"] = "2026-01-01 00:00:13"
    assert len((await client.post("/timers/preview", json=asked)).json()["data"]["firings"]) == 2
    text = {"timer": '{"dueTime":"0s","period":"@daily"}', "count": 1}
    assert (await client.post("/timers/preview", json=text)).json()["data"]["dialect"] == "unix"
    warned = await client.post("/timers/preview", json={"timer": {"dueTime": "5s", "period": ""}})
    assert warned.json()["warnings"][0]["code"] == "due_time_ignored"
    # An empty list would say that nothing fires between two moments; both are included in order
    body = {"timer": {"period": "* * * * *"}, "from": "2026-01-01T00:00:00Z"}
    wrong = await client.post("/timers/preview", json=body | {"until": "2025-12-31T23:59:59Z"})
    assert (wrong.status_code, pointers(wrong)) == (422, [("/until", "range")])
    both = await client.post("/timers/preview", json=body | {"until": "2026-01-01T00:01:00Z"})
    assert [one["utc"] for one in both.json()["data"]["firings"]] == ["2026-01-01T00:01:00.000Z"]
    # `POST /timers/preview` warns as a job would: below `/timer`, of what has passed too
    timer = {"dueTime": "2020-01-01 00:00:00", "period": "0s"}
    past = (await client.post("/timers/preview", json={"timer": timer})).json()["warnings"]
    assert [(one["pointer"], one["code"]) for one in past] == [("/timer", "in_the_past")]
    ignored = (await client.post("/timers/preview", json={"timer": {"dueTime": "5s"}})).json()["warnings"]
    assert [(one["pointer"], one["code"]) for one in ignored] == [("/timer/dueTime", "due_time_ignored")]
    habit = (await client.post("/timers/preview", json={"timer": {"period": "0 9 * * * ?"}})).json()[
        "warnings"
    ]
    assert [(one["pointer"], one["code"]) for one in habit] == [("/timer/period", "second_first")]


@pytest.mark.parametrize(
    ("path", "right", "wrong", "pointer"),
    [
        ("/timers/preview", {"timer": MINUTELY}, {"timer": {"period": "often"}}, "/timer/period"),
        ("/timers/outlook", {"timer": MINUTELY}, {"timer": {"period": "often"}}, "/timer/period"),
        ("/templates/preview", {"template": "${a}", "root": {"a": 1}}, {"template": "${b}"}, "/template"),
        ("/definitions/check", definition(jobId="a"), definition(jobId="a", qos=7), "/qos"),
    ],
)
async def test_a_soft_preview_answers_200_with_the_problem(
    client: httpx.AsyncClient, path: str, right: Any, wrong: Any, pointer: str
) -> None:
    """The problem of the 422 stands in the body; other answers are as ever."""
    assert (await client.post(f"{path}?soft=true", json=right)).json() == (
        await client.post(path, json=right)
    ).json()
    refused = await client.post(path, json=wrong)
    soft = await client.post(f"{path}?soft=true", json=wrong)
    assert (refused.status_code, soft.status_code) == (422, 200)
    assert soft.json()["data"] == {"problem": refused.json()}
    assert soft.json()["data"]["problem"]["errors"][0]["pointer"] == pointer
    broken = await client.post(
        f"{path}?soft=true", content=b"{", headers={"content-type": "application/json"}
    )
    assert broken.status_code == 400


async def test_words_are_in_the_language_that_the_caller_prefers(client: httpx.AsyncClient) -> None:
    """Of a preview, of a job's next firings and of a check; English where nothing else is wanted."""
    chinese = {"Accept-Language": "zh-CN, en;q=0.5"}
    timer = {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin"}
    posted = {"timer": timer, "from": "2027-03-27T12:00:00Z"}
    shown = (await client.post("/timers/preview", json=posted, headers=chinese)).json()["data"]
    assert shown["description"] == "每天 02:30（Europe/Berlin 时间）"
    assert shown["firings"][0]["note"] == "当天时钟拨快 1 小时"
    await client.post("/jobs/told", json=definition(timer=timer))
    for headers, words in ((chinese, "每天 02:30"), ({"Accept-Language": "de"}, "At 02:30 every day")):
        told = (await client.get("/jobs/told/next", headers=headers)).json()["data"]
        assert told["description"].startswith(words)
        body = definition(timer=timer) | {"jobId": "told"}
        checked = (await client.post("/definitions/check", json=body, headers=headers)).json()["data"]
        assert checked["timer"]["description"].startswith(words)
    # Notes are in the language that the caller prefers: as the description of a timer is
    body = {"timer": NIGHTLY, "from": "2026-03-29", "days": 1}
    answer = await client.post("/timers/outlook", json=body, headers={"Accept-Language": "zh-CN"})
    (day,) = answer.json()["data"]["days"]
    assert (day["note"], day["noteText"]) == ("gap", "当天时钟拨快 1 小时")


@each_row(("count", "pieces"), [(100, 0), (101, 1)])
async def test_many_firings_are_computed_beside_the_loop(count: int, pieces: int) -> None:
    """A thousand of some timers took 34 ms."""

    def done() -> float:
        return next(large_work_samples()).value

    world = World()
    async with world.client() as client:
        await client.post("/jobs/one", json=definition(timer=MINUTELY))
        before = done()
        answer = await client.post("/timers/preview", json={"timer": MINUTELY, "count": count})
        assert len(answer.json()["data"]["firings"]) == count
        answer = await client.get("/jobs/one/next", params={"count": count})
        assert len(answer.json()["data"]["firings"]) == count
        assert done() - before == 2 * pieces


NIGHTLY = {"period": "0 30 2 * * ?", "timezone": "Europe/Berlin"}


async def look(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    """`data` of an outlook."""
    answer = await client.post("/timers/outlook", json=body)
    assert answer.is_success, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


async def test_a_year_of_a_timer(client: httpx.AsyncClient) -> None:
    """Per local day and hour; the days of a clock change are marked."""
    data = await look(client, timer=NIGHTLY, **{"from": "2026-03-01"}, days=366)
    assert (data["timezone"], data["total"], len(data["days"])) == ("Europe/Berlin", 366, 366)
    assert sum(data["byHour"]) == 366
    marked = {day["date"]: day for day in data["days"] if day["note"]}
    assert {date: day["note"] for date, day in marked.items()} == {
        "2026-03-29": "gap",
        "2026-10-25": "overlap",
    }
    assert marked["2026-03-29"]["first"] == marked["2026-03-29"]["last"] == "2026-03-29T01:00:00.000Z"
    assert "forward by 1 h" in marked["2026-03-29"]["noteText"]
    assert data["until"] == "2027-03-01T23:00:00.000Z"
    every_second = await look(client, timer={"period": "* * * * * ?"}, days=2)
    assert every_second["nextDay"][1]["count"] == 3_600


@pytest.mark.parametrize(
    ("timer", "codes"),
    [({}, []), ({"dueTime": "2h"}, ["due_time_ignored"]), ({"startAt": "2026-01-03T00:00:00Z"}, [])],
)
async def test_the_day_of_a_single_firing_has_its_moment(
    client: httpx.AsyncClient, timer: dict[str, str], codes: list[str]
) -> None:
    """First and last are the same; what is ignored is said as by `POST /timers/preview`."""
    answer = (await client.post("/timers/outlook", json={"timer": timer, "days": 5})).json()
    shown = (await client.post("/timers/preview", json={"timer": timer})).json()
    (day,) = answer["data"]["days"]
    at = shown["data"]["firings"][0]["utc"]
    assert (day["count"], day["first"], day["last"]) == (1, at, at)
    assert [one["code"] for one in answer["warnings"]] == codes
    assert answer["warnings"] == shown["warnings"]


async def test_other_jobs_are_counted_hour_by_hour(client: httpx.AsyncClient) -> None:
    """From the next firing of each on; the job itself is left out."""
    await client.post("/jobs/often", json=definition(timer={"dueTime": "30m", "period": "10m"}))
    await client.post("/jobs/own", json=definition(timer={"dueTime": "1h", "period": "1h"}))
    data = await look(client, timer={"period": "1h", "dueTime": "1h"}, jobId="own")
    assert [hour["others"] for hour in data["nextDay"]] == [3] + [6] * 23
    assert [hour["count"] for hour in data["nextDay"]] == [0] + [1] * 23
    both = await look(client, timer={"period": "external"})
    assert [hour["others"] for hour in both["nextDay"]] == [3] + [7] * 23
    assert not both["othersAreCapped"]


async def test_of_many_jobs_the_next_firing_is_counted(client: httpx.AsyncClient, world: World) -> None:
    """Beyond those that fire soonest; the answer says so."""
    timer = {"dueTime": "90m", "period": "1h"}
    body = [{"jobId": f"j{number}", **definition(timer=timer)} for number in range(MOST_READ + 5)]
    await client.post("/jobs", json=body)
    data = await look(client, timer={"period": "external"})
    assert data["othersAreCapped"]
    assert [hour["others"] for hour in data["nextDay"]] == [0, MOST_READ + 5] + [MOST_READ] * 22


POLICIES_CHECKS = [
    {"errorEquals": ["5xx", "timeout"], "maxAttempts": 2, "intervalSeconds": 1},
    {"errorEquals": "*", "maxAttempts": 1, "intervalSeconds": 5},
]


async def check(client: httpx.AsyncClient, **members: Any) -> dict[str, Any]:
    """`data` of a definition that is right."""
    answer = await client.post("/definitions/check", json=definition(jobId="a", **members))
    assert answer.is_success, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


async def test_a_definition_is_tried_without_a_job(client: httpx.AsyncClient, world: World) -> None:
    """Its timer in words and in its normal form, the retries of each policy; nothing is created."""
    data = await check(client, timer={"period": "@daily", "timezone": "Europe/Berlin"}, retry=POLICIES_CHECKS)
    assert (data["jobId"], data["kind"], data["existing"]) == ("a", "cron", None)
    preview = await client.post(
        "/timers/preview", json={"timer": {"period": "@daily", "timezone": "Europe/Berlin"}, "count": 5}
    )
    assert data["timer"] == preview.json()["data"]
    first, second = data["retryPlans"]
    assert (first["policy"], first["errors"], first["error"]) == (0, ["5xx", "timeout"], "500")
    assert [item["waitMs"] for item in first["items"]] == [1_000, 2_000]
    assert (second["policy"], second["errors"]) == (1, ["*"])
    assert (world.turns, world.documents) == (0, {})
    disabled = await check(client, timer={"period": "@daily"}, disabled=True)
    assert (disabled["kind"], disabled["timer"]["firings"]) == ("cron", [])
    # The job that is there is told: with its revision, and whether it would change
    await client.post("/jobs/a", json=definition())
    assert (await check(client))["existing"] == {"revision": 1, "isSame": True}
    assert (await check(client, jobName="other"))["existing"] == {"revision": 1, "isSame": False}


async def test_plans_of_many_policies_are_short(client: httpx.AsyncClient) -> None:
    """A hundred of a thousand retries were 7.6 MB, and held the loop for a second; one alone is whole."""
    endless = [{"errorEquals": str(400 + n), "maxAttempts": 10**9, "backoffRate": 1.01} for n in range(100)]
    data = await check(client, retry=endless, maxRetries=10**9)
    plans = [(len(plan["items"]), plan["reason"]) for plan in data["retryPlans"]]
    assert plans == [(10, None)] * 100
    assert [plan["items"][9]["policy"] for plan in data["retryPlans"]] == list(range(100))
    ten = [{**one, "maxAttempts": 10} for one in endless]
    ended = (await check(client, retry=ten, maxRetries=10**9))["retryPlans"]
    assert [(len(plan["items"]), plan["reason"]) for plan in ended] == [(10, "policy_spent")] * 100
    (alone,) = (await check(client, retry=endless[:1], maxRetries=10**9))["retryPlans"]
    assert (len(alone["items"]), alone["reason"]) == (1_000, None)


async def test_of_too_many_headers_nothing_else_is_read(client: httpx.AsyncClient) -> None:
    """To read them would hold the interpreter; of as many as may be all that is wrong is told."""
    many = {f"a{n}": "1" for n in range(1_001)}
    step = {"url": "http://target.test/", "headers": many}
    refused = await client.post("/definitions/check", json=definition(jobId="a", qos=7, request=[step]))
    assert (refused.status_code, pointers(refused)) == (422, [("/request/0/headers", "too_many")])
    many.popitem()
    refused = await client.post("/definitions/check", json=definition(jobId="a", qos=7, request=[step]))
    assert [pointer for pointer, _ in pointers(refused)] == ["/qos"]


async def test_all_that_is_wrong_is_told(client: httpx.AsyncClient) -> None:
    """As the creation would, with pointers; warnings too."""
    wrong = definition(jobId="a", qos=7, overlapPolicy="never")
    refused = await client.post("/definitions/check", json=wrong)
    created = await client.post("/jobs/a", json=wrong)
    assert refused.json() == created.json()
    nameless = await client.post("/definitions/check", json=definition())
    assert pointers(nameless) == [("/jobId", "required")]
    body = definition(jobId="a", retry=POLICIES_CHECKS, timer={"dueTime": "1s", "period": "0 0 * * * ?"})
    warned = await client.post("/definitions/check", json=body)
    made = await client.post("/jobs/a", json=body)
    assert warned.json()["warnings"] == made.json()["warnings"] != []


async def test_the_schema_is_served(client: httpx.AsyncClient) -> None:
    """For forms and editors."""
    schema = (await client.get("/schemas/job")).json()["data"]
    assert schema["required"] == ["jobName", "request"]
    assert schema["properties"]["overlapPolicy"]["enum"] == ["skip", "queue", "cancel_running", "allow"]
