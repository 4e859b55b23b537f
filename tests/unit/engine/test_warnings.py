"""What a definition may say but hardly means: warnings beside the answer (SPEC sections 5, 6, 7 and 13)."""

from typing import Any

from client_sdk.models import parse_definition
from scheduler_service.cli.lint_and_doctor import check
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings
from scheduler_service.engine.warnings import find_missing_secrets
from tests.rows import each_row
from tests.unit.engine.rig import definition

URL = "http://target.test/"


def warnings(**members: Any) -> list[tuple[str, str]]:
    """(pointer, code) of everything that a definition is warned of."""
    compiled = compile_definition(parse_definition(definition(**members)), Surroundings())
    return [(one.pointer, one.code) for one in compiled.warnings]


@each_row(
    ("members", "expected"),
    [
        ({}, []),
        ({"timer": {"dueTime": "5s", "period": ""}}, [("/timer/dueTime", "due_time_ignored")]),
        ({"timer": {"dueTime": "5s", "period": "external"}}, [("/timer/dueTime", "due_time_ignored")]),
        ({"notification": [{"url": URL}]}, []),
        ({"retry": [{"errorEquals": ["500", "lost"]}]}, [("/retry/0/errorEquals", "never_retried")]),
        ({"retry": [{"errorEquals": ["5XX", "Timeout"]}]}, [("/retry/0/errorEquals", "spelling")] * 2),
        ({"retry": [{"errorEquals": ["Partial"]}]}, [("/retry/0/errorEquals", "spelling")]),
        (
            {
                "request": [
                    {"url": "http://a/", "body": "订", "headers": {"content-type": "text/plain; Charset=GBK"}}
                ]
            },
            [("/request/0/headers/content-type", "charset")],
        ),
        ({"request": [{"url": "http://a/", "headers": {"Content-Type": 'text/plain; charset="UTF-8"'}}]}, []),
        ({"retry": [{"errorEquals": ["6xx", "1xx"]}]}, [("/retry/0/errorEquals", "spelling")]),
        (
            {
                "notification": [
                    {"url": "http://a/", "stateEquals": ["*", "4xx", "finalFailed", "finalSucceed"]}
                ]
            },
            [("/notification/0/stateEquals", "spelling")] * 2,
        ),
        ({"retry": [{"errorEquals": ["5xx", "*", "OUT_OF_STOCK", "418"]}]}, []),
        ({"checkUrl": URL}, [("/checkUrl", "check_ignored")]),
        ({"checkUrl": URL, "async": True}, []),
        (
            {"notification": [{"url": URL}, {"url": URL, "stateEquals": ["finalsucceed", "E7"]}]},
            [("/notification/1/stateEquals", "spelling")],
        ),
        (
            {"notification": [{"url": URL, "stateEquals": "finalSucceed"}]},
            [("/notification", "no_final_notification")],
        ),
        (
            {
                "notification": [
                    {"url": URL, "stateEquals": "finalSucceed"},
                    {"url": URL, "stateEquals": ["500", "finalFailed"]},
                ]
            },
            [],
        ),
    ],
)
def test_warnings(members: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """Warnings have pointers into the definition, like problems."""
    assert warnings(**members) == expected


@each_row(
    ("told", "untold", "text"),
    [
        ("finalFailed", "finalSucceed", "no notification says that an execution has succeeded"),
        ("finalSucceed", "finalFailed", "no notification says that an execution has failed for good"),
    ],
)
def test_an_alarm_may_be_meant(told: str, untold: str, text: str) -> None:
    """A job that tells only one of its ends is told which is not sent, and that it may be meant so."""
    posted = parse_definition(definition(notification=[{"url": URL, "stateEquals": told}]))
    [warning] = compile_definition(posted, Surroundings()).warnings
    assert f"no entry gets {untold}: {text}; this may be meant, else add it to" in warning.message


@each_row(
    ("key", "meant"),
    [
        ("finalFaild", "finalFailed"),
        ("finalSuccess", "finalSucceed"),
        ("succeeded", "succeed"),
        ("InProgress", "inprogress"),
        ("time_out", "timeout"),
        ("OUT_OF_STOCK", None),
        ("E7", None),
        ("404", None),
    ],
)
def test_a_near_miss_of_an_event_is_told(key: str, meant: str | None) -> None:
    """With the value and what was meant; codes of the business are free."""
    posted = parse_definition(definition(notification=[{"url": URL}, {"url": URL, "stateEquals": key}]))
    found = compile_definition(posted, Surroundings()).warnings
    said = [(one.pointer, one.code, one.message) for one in found]
    text = f"{key!r} is not an event of the scheduler; did you mean {meant!r}?"
    assert said == ([("/notification/1/stateEquals", "spelling", text)] if meant else [])


FEEDBACK = "${schedulingFeedbackUrl}"


@each_row(
    ("members", "is_warned"),
    [
        ({}, True),
        ({"request": [{"url": "http://t.test/", "body": "${schedulingRequestCounts}"}]}, True),
        ({"request": [{"url": "http://t.test/", "body": {"tell": [FEEDBACK]}}]}, False),
        ({"request": [{"url": f"http://t.test/?tell={FEEDBACK}"}]}, False),
        (
            {
                "request": [
                    {"url": "http://t.test/", "headers": {"X-Tell": "${schedulingFeedbackUrlExternal}"}}
                ]
            },
            False,
        ),
        ({"request": [{"url": "http://t.test/"}, {"url": FEEDBACK}]}, False),
        ({"notification": [{"url": "http://t.test/", "body": FEEDBACK}]}, False),
        ({"checkUrl": "http://t.test/"}, False),
        ({"async": False}, False),
    ],
)
def test_an_asynchronous_job_without_an_outcome_is_warned_of(
    members: dict[str, Any], is_warned: bool
) -> None:
    """Neither a check nor a feedback URL in any template: nobody says how it ended (SPEC section 5)."""
    posted = parse_definition(definition(**{"async": True, **members}))
    codes = [(one.pointer, one.code) for one in compile_definition(posted, Surroundings()).warnings]
    assert (("/async", "no_outcome") in codes) is is_warned


@each_row(
    ("members", "unreachable", "is_warned"),
    [
        ({"request": [{"url": f"http://t.test/?tell={FEEDBACK}"}]}, "http://127.0.0.1:8000", True),
        ({"request": [{"url": f"http://t.test/?tell={FEEDBACK}"}]}, None, False),
        ({"request": [{"url": f"http://t.test/?tell={FEEDBACK}"}]}, "http://127.0.0.1:1", False),
        (
            {"request": [{"url": f"http://t.test/?tell={FEEDBACK}"}], "checkUrl": "http://t.test/"},
            "http://127.0.0.1:8000",
            False,
        ),
        ({}, "http://127.0.0.1:8000", False),
    ],
)
def test_a_feedback_url_that_nobody_reaches_is_warned_of(
    members: dict[str, Any], unreachable: str | None, is_warned: bool
) -> None:
    """The service listens to others and has no address that they reach (SPEC section 5)."""
    posted = parse_definition(definition(**{"async": True, **members}))
    compiled = compile_definition(posted, Surroundings(unreachable=unreachable))
    codes = [(one.pointer, one.code) for one in compiled.warnings]
    assert (("/async", "feedback_unreachable") in codes) is is_warned


@each_row(
    ("options", "timeout", "is_warned"),
    [
        ({}, {}, True),
        ({}, {"timeoutSeconds": 70}, True),
        ({}, {"timeoutSeconds": 70.5}, False),
        ({"leaseSeconds": 30}, {}, False),
        ({"leaseSeconds": 50}, {}, True),
        ({"leaseSeconds": 50, "unexpectedRetryDelaySeconds": 0}, {}, False),
        ({"maxUnexpectedRetries": 0}, {}, False),
    ],
)
def test_work_that_is_never_given_out_again_is_warned_of(
    options: dict[str, Any], timeout: dict[str, Any], is_warned: bool
) -> None:
    """The limit ends before the first lease and the delay: no retry takes effect (SPEC section 13)."""
    found = warnings(request=[{"url": URL}, {"url": "queue://work", **options}], **timeout)
    assert found == ([("/request/1", "no_second_claim")] if is_warned else [])


@each_row(
    ("members", "is_warned"),
    [
        ({"timeoutSeconds": 120}, True),
        ({"timeoutSeconds": 60}, False),
        ({"timeoutSeconds": 120, "request": [{"url": URL}, {"url": URL}]}, False),
        ({"timeoutSeconds": 121, "request": [{"url": URL}, {"url": URL}]}, True),
        ({"timeoutSeconds": 120, "async": True, "checkUrl": URL}, False),
        ({"timeoutSeconds": 1_000, "request": [{"url": "queue://work"}]}, False),
    ],
)
def test_a_limit_that_no_call_can_use_is_warned_of(members: dict[str, Any], is_warned: bool) -> None:
    """The calls of a synchronous chain end before it: a setting limits each (SPEC section 2)."""
    assert warnings(**members) == ([("/timeoutSeconds", "call_limit")] if is_warned else [])


def test_the_warning_of_a_limit_names_both_values() -> None:
    """And the setting of this service."""
    posted = parse_definition(definition(timeoutSeconds=120))
    (found,) = compile_definition(posted, Surroundings(http_timeout=30_000)).warnings
    assert found.message == (
        "timeoutSeconds is 120, but the setting defaults.http_timeout_seconds ends each call after 30 s; "
        "make longer work asynchronous (async true), raise the setting, or give at most 30"
    )


SOME_URL = "http://target.test/"
FIRST = {"url": SOME_URL, "respEnvName": "PRICE"}


def told(around: Surroundings | None = None, **members: Any) -> list[tuple[str, str, str]]:
    posted = parse_definition(definition(**members))
    compiled = compile_definition(posted, around or Surroundings())
    return [(one.pointer, one.code, one.message) for one in compiled.warnings]


@each_row(
    ("step", "pointer", "code", "meant"),
    [
        ({"body": {"a": ["${PRCE.price}"]}}, "/request/1/body/a/0", "unknown_name", "PRICE"),
        ({"body": "${$.PRCE.price}|json"}, "/request/1/body", "unknown_name", "PRICE"),
        ({"body": {"id": "${schedulngJobId}"}}, "/request/1/body/id", "unknown_name", "schedulingJobId"),
        ({"headers": {"X-Id": "${jobbId}"}}, "/request/1/headers/X-Id", "unknown_name", "jobId"),
        ({"url": f"{SOME_URL}?a=${{REGOIN}}"}, "/request/1/url", "unknown_name", "REGION"),
        ({"body": "${PRICE.price}|jsn"}, "/request/1/body", "unknown_suffix", "${PRICE.price}|json"),
        ({"body": "${PRICE.price}| json"}, "/request/1/body", "unknown_suffix", "${PRICE.price}|json"),
    ],
)
def test_a_near_miss_is_told(step: dict[str, Any], pointer: str, code: str, meant: str) -> None:
    """With its place, and what was probably meant."""
    around = Surroundings(environment={"REGION": "cn"})
    [(where, what, text)] = told(around, request=[FIRST, {"url": SOME_URL, **step}])
    assert (where, what) == (pointer, code)
    assert text.endswith(f"did you mean {meant}?")


@each_row(
    "members",
    [
        {
            "request": [
                FIRST,
                {"url": SOME_URL, "body": "${article} ${trigger.PRCE} ${response.a} ${PRICES} ${TIME2}"},
            ]
        },
        {"request": [FIRST, {"url": SOME_URL, "body": {"a": "${PRICE.price}|text", "b": "x ${PRICE}|jsn"}}]},
        {"request": [{"url": SOME_URL, "body": "${PRCE}"}, FIRST]},
        {
            "request": [FIRST, {"url": SOME_URL, "body": "${PRCE}"}],
            "paramsSchema": {"type": "object", "properties": {"PRCE": {}}},
        },
        {"request": [FIRST, {"url": SOME_URL, "body": "${" + "P" * 900 + "}"}]},
    ],
)
def test_free_names_pass(members: dict[str, Any]) -> None:
    """Parameters and members of responses have names of their own; later responses are not known yet."""
    assert told(**members) == []


@each_row(
    ("body", "is_told"),
    [
        ("${trigger.day}", True),
        ({"a": ["${$.trigger['day'][0]}|json"]}, True),
        ({"all": "${trigger}|json", "those": "${$.trigger[?@ > 1]}", "late": "${schedulingFireTime}"}, False),
    ],
)
def test_a_parameter_that_a_firing_lacks_is_told_once(body: Any, is_told: bool) -> None:
    """With a timer, since each of its firings would fail; what is only triggered may need parameters."""
    steps = [{"url": f"{SOME_URL}a"}, {"url": SOME_URL, "body": body}, {"url": SOME_URL, "body": body}]
    found = [(pointer, code) for pointer, code, _ in told(timer={"period": "0 0 2 * * ?"}, request=steps)]
    assert [code for _, code in found] == ["no_params"] * is_told
    assert all(pointer.startswith("/request/1/body") for pointer, _ in found)
    assert told(request=steps) == []


def test_the_root_of_the_first_step_are_parameters() -> None:
    """What is neither there nor a variable fails at each firing; later steps have answers as their root."""
    around = Surroundings(environment={"REGION": "cn"})
    timer = {"period": "1h"}
    for body in ("${article}", "${$.article.id}"):
        steps = [{"url": SOME_URL, "body": body}]
        assert [code for _, code, _ in told(around, timer=timer, request=steps)] == ["no_params"]
        assert told(around, timer=timer, request=[FIRST, *steps]) == []
    fine = {"url": f"{SOME_URL}${{REGION}}", "body": "${$}|json", "headers": {"X-Id": "${jobId}"}}
    assert told(around, timer=timer, request=[fine]) == []
    # A check, cancelUrl and notifications follow the whole chain; a name is told once per place
    body = "${PRCE.a} ${PRCE.b} ${PRICE.a}"
    found = told(request=[FIRST], notification=[{"url": SOME_URL, "body": body}])
    assert [(pointer, code) for pointer, code, _ in found] == [("/notification/0/body", "unknown_name")]
    # Without a service
    errors, found = check(definition(request=[FIRST, {"url": SOME_URL, "body": "${PRCE.price}"}]))
    assert (errors, [code for _, code, _ in found]) == ([], ["unknown_name"])


@each_row(
    ("url", "said"),
    [
        ("http://{{host}}/a", "'{{host}}' is sent as it stands; a template is written ${host}"),
        ("http://$HOST:80/a", "'$HOST' is sent as it stands; a template is written ${HOST}"),
        ("http://{host}", "'{host}' is sent as it stands; a template is written ${host}"),
        (f"{SOME_URL}/{{{{ id }}}}", "'{{ id }}' is sent as it stands; a template is written ${id}"),
    ],
)
def test_a_template_of_other_tools_is_told(url: str, said: str) -> None:
    """In a SOME_URL, where it can hardly be meant."""
    [(where, what, text)] = told(Surroundings(), request=[{"url": url}])
    assert (where, what, text) == ("/request/0/url", "no_template", said)


def test_templates_of_other_tools_are_told_wherever_one_may_stand() -> None:
    """In headers and bodies of all requests; those of Airflow for the moment by what is meant."""
    step = {
        "url": SOME_URL,
        "headers": {"X-Day": "{{ ds }}"},
        "body": {"a": ["{{ params.cups }}", "{% if x %}"]},
    }
    other = {"url": f"{SOME_URL}?day={{{{ts|tojson}}}}", "body": "{{ run_id }}"}
    members = {"notification": [other], "checkUrl": SOME_URL, "cancelUrl": other, "async": True}
    found = told(Surroundings(), request=[step], **members)
    assert [(where, text.partition("; ")[2]) for where, what, text in found if what == "no_template"] == [
        ("/request/0/headers/X-Day", "a template is written ${schedulingFireTime}"),
        ("/request/0/body/a/0", "a template is written ${params.cups}"),
        ("/request/0/body/a/1", "templates are written ${…}"),
        ("/cancelUrl/url", "a template is written ${schedulingFireTime}"),
        ("/cancelUrl/body", "a template is written ${run_id}"),
        ("/notification/0/url", "a template is written ${schedulingFireTime}"),
        ("/notification/0/body", "a template is written ${run_id}"),
    ]


def test_a_secret_that_does_not_exist_is_told_wherever_it_may_stand() -> None:
    """What exists by its name is left alone."""
    around = Surroundings(has_secret=lambda tenant, name: (tenant, name) == ("default", "KNOWN"))
    step = {"url": f"{SOME_URL}?k=${{secrets.A}}", "headers": {"X": "b ${secrets.B}"}}
    members = {
        "request": [{**step, "body": {"a": ["${secrets.C}", "x${secrets.KNOWN}"]}}],
        "async": True,
        "checkUrl": {"url": SOME_URL, "headers": {"X": "${secrets.D}"}},
        "cancelUrl": {"url": SOME_URL, "body": "${secrets.E}"},
        "notification": [{"url": SOME_URL, "body": {"k": "${secrets.F} ${secrets.A}"}}],
    }
    compiled = compile_definition(parse_definition(definition(**members)), around)
    found = list(find_missing_secrets(compiled.program))
    assert [(one.pointer, one.message.split("'")[1]) for one in found] == [
        ("/request/0/url", "A"),
        ("/request/0/headers/X", "B"),
        ("/request/0/body/a/0", "C"),
        ("/checkUrl/headers/X", "D"),
        ("/cancelUrl/body", "E"),
        ("/notification/0/body/k", "F"),
        ("/notification/0/body/k", "A"),
    ]
    assert {one.code for one in found} == {"unknown_secret"}


def test_a_dollar_or_a_brace_in_a_path_is_left_alone() -> None:
    """As in OData."""
    assert told(Surroundings(), request=[{"url": f"{SOME_URL}/a?$filter=b&c={{d}}"}]) == []
