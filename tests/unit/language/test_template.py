"""What is refused when a job is created, and the properties of a compiled template (SPEC section 4)."""

from collections.abc import Callable
from contextlib import suppress
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.errors import DefinitionError, ExpressionError
from scheduler_service.domain.texts import scrub
from scheduler_service.language.expression import NOTIFY_BODY, SYSTEM_VARIABLES, Names
from scheduler_service.language.jsonpath import NODES_MAX, Stopped, compile_path, evaluate
from scheduler_service.language.jsonpath_filters import Budget
from scheduler_service.language.rendering import (
    Rendered,
    Scope,
    Unrenderable,
    render_json,
    render_url,
)
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


BASE_NAMES = Names(environment=frozenset({"BASE"}))
ANY = st.text(st.characters(), max_size=40) | st.sampled_from(
    ["${v}", "..", ".", "", "$${", "${v}|json", "//", "@e"]
)


def scope(value: object) -> Scope:
    environment = {"BASE": "http://base/v"}
    return Scope(system={"schedulingJobId": "j"}, environment=environment, root={"v": value}, aliases={})


@given(ANY)
@settings(deadline=None)
def test_a_value_is_never_evaluated(value: str) -> None:
    """SPEC section 4: no template is evaluated twice: what a response contains is data."""
    body = compile_json(["${v}", "${v}|json", "<${$.v}>"], names=BASE_NAMES)
    assert render_json(body, scope(value)) == Rendered([value, value, f"<{value}>"])


@given(
    ANY, ANY, st.sampled_from(["http://h:8/a/${v}/${$.w}?p=${v}#${w}", "${BASE}/x${v}/${w}?q=${v}&r=${w}#"])
)
@settings(deadline=None)
def test_a_value_never_changes_where_a_url_goes(value: str, other: str, text: str) -> None:
    """SPEC section 4: neither scheme, nor host, nor path depth, nor the number of parameters."""
    template = compile_url(text, names=BASE_NAMES)

    def rendered(first: str, second: str) -> str | Unrenderable:
        root = {"v": first, "w": second}
        return render_url(
            template, Scope(system={}, environment=scope("").environment, root=root, aliases={})
        )

    url, plain = rendered(value, other), rendered("x", "y")
    assert isinstance(plain, str)
    if isinstance(url, Unrenderable):
        assert {value, other} & {".", "..", ""}
        return
    got, want = urlsplit(url), urlsplit(plain)
    assert (got.scheme, got.netloc, got.path.count("/")) == (want.scheme, want.netloc, want.path.count("/"))
    assert got.query.count("&") == want.query.count("&")
    assert got.query.partition("=")[2].partition("&")[0] == quote(scrub(value), safe="")


@given(ANY)
@settings(deadline=None)
def test_a_doubled_dollar_writes_any_text(text: str) -> None:
    """SPEC section 4: `$${` is a literal `${`, so that every text can be written."""
    template = compile_json(text.replace("${", "$${"), names=BASE_NAMES)
    assert template.is_constant
    assert template.node == text


MANY = 10_000
FUZZ_NAMES = Names(environment=frozenset({"BASE"}), resp_env_names=("ONE",))
BYTES = st.binary(max_size=MANY).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
SIGNS = ["${", "$${", "|json", "..", "-1", "==", "&&", *"}$.[]?@()'\"\\*:,0a!/\né"]
PIECES = st.lists(
    st.sampled_from([*SIGNS, "schedulingJobId", "BASE", "http://", "match(", "search(", "count("]),
    max_size=2_000,
).map(lambda pieces: "".join(pieces)[:MANY])
REPEATED = st.builds(lambda piece, count: (piece * count)[:MANY], PIECES.filter(bool), st.integers(1, 1_000))
TEXTS = BYTES | PIECES | REPEATED


def refused(compiling: Callable[..., object], text: str) -> ExpressionError | None:
    try:
        compiling(text, names=FUZZ_NAMES)
    except ExpressionError as error:
        return error
    return None


@given(TEXTS)
def test_any_text_is_compiled_or_refused(text: str) -> None:
    """Each compiler raises its own error or nothing, with a place inside the text."""
    for compiling in (compile_text, compile_url):
        error = refused(compiling, text)
        assert error is None or error.column is None or 0 <= error.column <= len(text)
    with suppress(DefinitionError):
        compile_json({"a": [text]}, names=FUZZ_NAMES)


@given(
    TEXTS,
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda x: st.lists(x) | st.dictionaries(st.text(max_size=2), x),
        max_leaves=20,
    ),
)
def test_any_path_is_compiled_or_refused_and_never_raises(text: str, root: object) -> None:
    """What compiles is evaluated to a value, whatever the document."""
    for path in (text, "$" + text, f"$[?{text}]"):
        with suppress(ExpressionError):
            evaluate(compile_path(path), root, Budget(1_000))


@each_row(
    "path",
    [
        "$..*..*..*",
        "$..[?@..[?@..a]]",
        "$[?count(@..*)>1]",
        "$[?match(@.a, '(a{1,90}){1,90}')]",
        "$..[*,*,*,*]..[*,*]",
    ],
)
def test_an_evaluation_visits_so_many_values_and_no_more(path: str) -> None:
    """Steps are counted, not seconds: the same answer on every machine (SPEC section 4)."""
    root: object = {"a": "a" * 5_000}
    for _ in range(6):
        root = [root] * 7
    budget = Budget(NODES_MAX)
    found = evaluate(compile_path(path), root, budget)
    assert isinstance(found, Stopped | list)
    assert budget.left > -NODES_MAX


@each_row(
    ("text", "column", "hint"),
    [
        ("ab ${name", 3, "$${"),
        ("${}", 2, "empty"),
        ("${ }", 2, "empty"),
        ("${a-b}", 2, "${$.member}"),
        ("${ex(1)}", 2, "${$.member}"),
        ("x${$.a[}", 7, "JSONPath"),
        ("${responses[0].x responses[1].y}", 2, "${responses[0].x} ${responses[1].y}"),
        ("${a b}", 2, "${a} ${b}"),
        ("${a${b}}", 2, "one after the other"),
        ("${$.student|json}", 2, "${$.student}|json"),
        ("${student | json}", 2, "${student}|json"),
        ("${schedulingBogus}", 2, "schedulingJobId"),
        ("${schedulingNotifyBody}", 2, "has no value here"),
        ("${schedulingBogus.a}", 2, "not a system variable; there are schedulingExecuteNumber, "),
        ("${schedulingjobid}", 2, "not a system variable; did you mean schedulingJobId?"),
        ("${a}|json", 0, "${a}"),
        ("x\r\ny", 1, "control"),
        ("${" + "a" * 1_001 + "}", 2, "1001"),
    ],
)
def test_bad_syntax_is_refused_with_its_place_and_a_remedy(text: str, column: int, hint: str) -> None:
    """SPEC section 4: everything that can be known when the job is created is checked then."""
    error = refusal(text)
    assert error.column is not None
    assert abs(error.column - column) <= (4 if "JSONPath" in hint else 0)
    assert hint in error.message


def test_a_brace_within_quotes_does_not_end_an_expression() -> None:
    """RFC 9535: a name or a pattern may hold braces."""
    template = compile_text("""${$['a}b']}-${$.x[?match(@, "a{2}")]}""", names=NAMES)
    assert template.members == {"a}b", "x"}


@each_row(
    ("text", "said", "column"),
    [
        ("x ${a, b}", "write ${a} ${b}", 4),
        ("${ a }", "has blanks beside it; write ${a}", 2),
        ("${$['a' 'b']}", "a comma is missing between two selectors", 9),
        ("${$[?@.a=1]}", "'=' compares nothing; write ==", 8),
        ("${a.b-c}", "write other names in brackets, as in ['a-b']", 5),
        ("${$..}", "bald descendant segment", 5),
    ],
)
def test_a_mistake_gets_its_remedy_and_its_column(text: str, said: str, column: int) -> None:
    """The message names what to write instead, and the place inside the text (SPEC section 4: 422)."""
    error = refusal(text)
    assert said in error.message
    assert error.column == column
    assert error.full_message.endswith(f"(column {column + 1})")
