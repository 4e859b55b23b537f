"""Templates that are valid but probably misspelt (SPEC section 4)."""

from typing import Any

from client_sdk.models import parse_definition
from scheduler_service.cli.checking import check
from scheduler_service.engine.compile import compile_definition
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row
from tests.unit.engine.rig import definition

URL = "http://target.test/"
FIRST = {"url": URL, "respEnvName": "PRICE"}


def warnings(around: Surroundings | None = None, **members: Any) -> list[tuple[str, str, str]]:
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
        ({"url": f"{URL}?a=${{REGOIN}}"}, "/request/1/url", "unknown_name", "REGION"),
        ({"body": "${PRICE.price}|jsn"}, "/request/1/body", "unknown_suffix", "${PRICE.price}|json"),
        ({"body": "${PRICE.price}| json"}, "/request/1/body", "unknown_suffix", "${PRICE.price}|json"),
    ],
)
def test_a_near_miss_is_told(step: dict[str, Any], pointer: str, code: str, meant: str) -> None:
    """With its place, and what was probably meant."""
    around = Surroundings(environment={"REGION": "cn"})
    [(where, what, text)] = warnings(around, request=[FIRST, {"url": URL, **step}])
    assert (where, what) == (pointer, code)
    assert text.endswith(f"did you mean {meant}?")


@each_row(
    "members",
    [
        {
            "request": [
                FIRST,
                {"url": URL, "body": "${article} ${trigger.PRCE} ${response.a} ${PRICES} ${TIME2}"},
            ]
        },
        {"request": [FIRST, {"url": URL, "body": {"a": "${PRICE.price}|text", "b": "x ${PRICE}|jsn"}}]},
        {"request": [{"url": URL, "body": "${PRCE}"}, FIRST]},
        {
            "request": [FIRST, {"url": URL, "body": "${PRCE}"}],
            "paramsSchema": {"type": "object", "properties": {"PRCE": {}}},
        },
        {"request": [FIRST, {"url": URL, "body": "${" + "P" * 900 + "}"}]},
    ],
)
def test_free_names_pass(members: dict[str, Any]) -> None:
    """Parameters and members of responses have names of their own; later responses are not known yet."""
    assert warnings(**members) == []


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
    steps = [{"url": f"{URL}a"}, {"url": URL, "body": body}, {"url": URL, "body": body}]
    found = [(pointer, code) for pointer, code, _ in warnings(timer={"period": "0 0 2 * * ?"}, request=steps)]
    assert [code for _, code in found] == ["no_params"] * is_told
    assert all(pointer.startswith("/request/1/body") for pointer, _ in found)
    assert warnings(request=steps) == []


def test_the_root_of_the_first_step_are_parameters() -> None:
    """What is neither there nor a variable fails at each firing; later steps have answers as their root."""
    around = Surroundings(environment={"REGION": "cn"})
    timer = {"period": "1h"}
    for body in ("${article}", "${$.article.id}"):
        steps = [{"url": URL, "body": body}]
        assert [code for _, code, _ in warnings(around, timer=timer, request=steps)] == ["no_params"]
        assert warnings(around, timer=timer, request=[FIRST, *steps]) == []
    fine = {"url": f"{URL}${{REGION}}", "body": "${$}|json", "headers": {"X-Id": "${jobId}"}}
    assert warnings(around, timer=timer, request=[fine]) == []


def test_notifications_know_every_response() -> None:
    """A check, cancelUrl and notifications follow the whole chain; a name is told once per place."""
    body = "${PRCE.a} ${PRCE.b} ${PRICE.a}"
    found = warnings(request=[FIRST], notification=[{"url": URL, "body": body}])
    assert [(pointer, code) for pointer, code, _ in found] == [("/notification/0/body", "unknown_name")]
    # Without a service
    errors, found = check(definition(request=[FIRST, {"url": URL, "body": "${PRCE.price}"}]))
    assert (errors, [code for _, code, _ in found]) == ([], ["unknown_name"])


@each_row(
    ("url", "said"),
    [
        ("http://{{host}}/a", "'{{host}}' is sent as it stands; a template is written ${host}"),
        ("http://$HOST:80/a", "'$HOST' is sent as it stands; a template is written ${HOST}"),
        ("http://{host}", "'{host}' is sent as it stands; a template is written ${host}"),
        (f"{URL}/{{{{ id }}}}", "'{{ id }}' is sent as it stands; a template is written ${id}"),
    ],
)
def test_a_template_of_other_tools_is_told(url: str, said: str) -> None:
    """In a URL, where it can hardly be meant."""
    [(where, what, text)] = warnings(Surroundings(), request=[{"url": url}])
    assert (where, what, text) == ("/request/0/url", "no_template", said)


def test_a_dollar_or_a_brace_in_a_path_is_left_alone() -> None:
    """As in OData."""
    assert warnings(Surroundings(), request=[{"url": f"{URL}/a?$filter=b&c={{d}}"}]) == []
