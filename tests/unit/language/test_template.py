"""What is refused when a job is created, and the properties of a compiled template (SPEC section 4)."""

import pytest

from scheduler_service.domain.errors import DefinitionError
from scheduler_service.language.expression import NOTIFY_BODY, SYSTEM_VARIABLES
from scheduler_service.language.template import compile_json, compile_text, compile_url
from tests.rows import each_row
from tests.unit.language.refusals import NAMES, refusal


def problems(value: object) -> dict[str, str]:
    with pytest.raises(DefinitionError) as caught:
        compile_json(value, names=NAMES)
    return {problem.pointer: problem.message for problem in caught.value.problems}


def test_the_system_variables_are_those_of_the_specification() -> None:
    """SPEC section 4, System variables: nine everywhere, and the notification's body."""
    assert SYSTEM_VARIABLES == SYSTEM_VARIABLES
    assert len(SYSTEM_VARIABLES) == 9
    assert NOTIFY_BODY not in SYSTEM_VARIABLES


@each_row(
    ("value", "pointer"),
    [
        ("${a}|json${b}|json", ""),
        ("${a}${b}|json", ""),
        ("x${a}|json", ""),
        ("${a}|json ", ""),
        ("${a}|json|json", ""),
        ({"a": ["x${b}|json"]}, "/a/0"),
        ({"a/b": {"m~n": "${"}}, "/a~1b/m~0n"),
    ],
)
def test_json_stands_alone_in_its_string(value: object, pointer: str) -> None:
    """SPEC section 4: two `|json` in one value or text beside one are refused, with a JSON Pointer."""
    assert list(problems(value)) == [pointer]


def test_every_wrong_string_of_a_body_is_told_at_once() -> None:
    """SPEC section 10: `errors[]` has all of them."""
    assert list(problems({"a": "${", "b": [1, "${}"], "c": "fine"})) == ["/a", "/b/1"]
    # SPEC section 10: at most 64 levels
    deep: object = "${a}"
    for _ in range(70):
        deep = [deep]
    assert "64" in " ".join(problems(deep).values())
    # SPEC section 4: any depth, keys excluded
    assert compile_json({"${": 1}, names=NAMES).is_constant


def test_a_template_tells_what_it_reads() -> None:
    """What the engine keeps and resolves follows from these sets."""
    template = compile_json(
        {"a": "${schedulingJobId}", "b": ["${x}|json", "${$.y.z} ${LOGIN.token}"], "c": "${$..d}"},
        names=NAMES,
    )
    assert template.variables == {"schedulingJobId"}
    assert template.members == {"x", "y", "LOGIN", "*"}
    assert not template.is_constant


@each_row(
    ("text", "members"),
    [
        ("${$}", {"*"}),
        ("${$.*}", {"*"}),
        ("${$['a','b'].c}", {"a", "b"}),
        ("${$.a[?@.id == $.b.id]}", {"a", "b"}),
        ("${$.a[?@.id == $['c'][0] || count($..x) > 1]}", {"a", "c", "*"}),
        ("${jobId}", {"jobId"}),
        ("${schedulingJobId}", set()),
    ],
)
def test_members_name_all_that_a_path_may_read(text: str, members: set[str]) -> None:
    """Also what the filters within it read from the root."""
    assert compile_text(text, names=NAMES).members == members


@each_row(
    "text",
    [
        "service:/main/api",
        "service://{serviceName}/main/api",
        "service://{serviceGateway}/oa/main/api",
        "queue://work",
        "HTTPS://h",
    ],
)
def test_the_forms_of_target_urls_pass_untouched(text: str) -> None:
    """SPEC section 9."""
    template = compile_url(text, names=NAMES)
    assert template.is_constant
    assert template.text == text


@each_row(
    ("text", "source"),
    [
        ("${next}", None),
        ("${$.next}", None),
        ("${LOGIN.next}", "LOGIN"),
        ("${LOGIN}", "LOGIN"),
        ("${responses[0].next}", 0),
        ("${$['responses'][2].a}", 2),
        ("${responses[-1].next}", None),
        ("${trigger.url}", "trigger"),
    ],
)
def test_a_url_of_one_expression_tells_whose_response_it_reads(text: str, source: object) -> None:
    """SPEC section 4: relative ones are resolved against the step that answered."""
    template = compile_url(text, names=NAMES)
    assert template.whole
    assert template.source == source


@each_row("text", ["${BASE}", "${BASE}/${a}", "${schedulingFeedbackUrl}", "http://h/${a}"])
def test_a_url_that_the_definition_decides_is_not_whole(text: str) -> None:
    """SPEC section 4: variables of the environment go in as they are."""
    assert not compile_url(text, names=NAMES).whole


def test_a_text_and_a_body_have_so_many_expressions_and_no_more() -> None:
    """What comes from outside is limited, so that no definition keeps the service busy (SPEC section 4)."""
    many = "${a}" * 500
    assert compile_text(many, names=NAMES).members == {"a"}
    assert "more than 500 expressions" in refusal(many + "${a}").message
    assert compile_json(["${a}"] * 500, names=NAMES).members == {"a"}
    with pytest.raises(DefinitionError) as caught:
        compile_json(["${a}"] * 700, names=NAMES)
    assert [(one.pointer, one.code) for one in caught.value.problems] == [("/500", "too_many")]
