"""What templates become (SPEC section 4, Templates)."""

from scheduler_service.language.expression import NOTIFY_BODY, SYSTEM_VARIABLES, Names
from scheduler_service.language.rendering import (
    Rendered,
    Scope,
    Unrenderable,
    render_json,
    render_text,
    render_url,
)
from scheduler_service.language.template import compile_json, compile_text, compile_url
from tests.rows import each_row

NAMES = Names(
    system=SYSTEM_VARIABLES | {NOTIFY_BODY}, environment=frozenset({"BASE", "HOST", "both", "SLASH"})
)
SCOPE = Scope(
    system={
        "schedulingFeedbackUrl": "http://me/f?token=a&b",
        "schedulingJobId": "system",
        NOTIFY_BODY: {"response": {"status": "succeed"}},
    },
    environment={
        "BASE": "http://base/v1",
        "HOST": "host:81",
        "both": "environment",
        "jobId2": "e",
        "SLASH": "/a/b",
    },
    root={
        "text": "a b",
        "number": 1.5,
        "null": None,
        "true": True,
        "object": {"k": ["ü", 1]},
        "both": "root",
        "template": "${text}",
        "wild": "1&x=2#/../?\r\n%41\\",
        "dot": ".",
        "dots": "..",
        "empty": "",
        "crlf": "a\r\nX-Injected: 1",
        "lone": "\ud800",
        "responses": [{"a": 1}, {"a": 2}],
        "trigger": {},
        "jobId": "member",
        "next": "/page/2",
    },
    aliases={"jobId": "alias", "executeNumber": 7},
)


def header(text: str) -> str | Unrenderable:
    return render_text(compile_text(text, names=NAMES), SCOPE)


def url(text: str) -> str | Unrenderable:
    return render_url(compile_url(text, names=NAMES), SCOPE)


def body(value: object) -> object:
    rendered = render_json(compile_json(value, names=NAMES), SCOPE)
    return rendered.value if isinstance(rendered, Rendered) else rendered


@each_row(
    ("text", "expected"),
    [
        ("${schedulingJobId}", "system"),
        ("${both}", "root"),
        ("${HOST}", "host:81"),
        ("${jobId}", "member"),
        ("${executeNumber}", "7"),
        ("$${text}", "${text}"),
        ("a$${b}${text}", "a${b}a b"),
        ("${$.object.k[0]}", "ü"),
        ("${object.k[-1]}", "1"),
        ("${responses[1].a}", "2"),
        ("${responses[*].a}", "[1,2]"),
        ("${$.nothing[*]}", "[]"),
        ("${null}${true}${number}", "nulltrue1.5"),
        ("${object}", '{"k":["ü",1]}'),
        ("${schedulingNotifyBody.response.status}", "succeed"),
    ],
)
def test_a_name_is_looked_up_in_order_and_interpolated_as_text(text: str, expected: str) -> None:
    """SPEC section 4: system variable, member of the root, environment, alias; other JSON as compact JSON."""
    assert header(text) == expected


@each_row("text", ["${nothing}", "${$.nothing}", "${object.x}", "${text[0]}", "${object.k[2]}"])
def test_an_expression_that_finds_nothing_is_named(text: str) -> None:
    """SPEC section 4: at run time it fails the attempt with `template`, naming the expression."""
    outcome = header(f"x {text}")
    assert isinstance(outcome, Unrenderable)
    assert outcome.expression == text[2:-1]


@each_row(
    ("value", "expected"),
    [
        ("${object}|json", {"k": ["ü", 1]}),
        ("${null}|json", None),
        ("${$.number}|json", 1.5),
        ("${text}|json", "a b"),
        ("${$..a}|json", [1, 2]),
        ("x ${object}", 'x {"k":["ü",1]}'),
        ({"a": ["${true}|json", {"b": "${text}"}], "${c}": 1}, {"a": [True, {"b": "a b"}], "${c}": 1}),
        ("${template}|json", "${text}"),
        ("${template}", "${text}"),
        ("$${a}|json", "${a}|json"),
    ],
)
def test_json_becomes_the_value_and_anything_else_text(value: object, expected: object) -> None:
    """SPEC section 4: exactly one expression with `|json` becomes that JSON value, whatever its type."""
    assert body(value) == expected


@each_row("text", ["${crlf}", "${$.crlf}", "a ${object} ${crlf}"])
def test_control_characters_never_reach_a_header(text: str) -> None:
    """SPEC section 4: they fail with `template`."""
    outcome = header(text)
    assert isinstance(outcome, Unrenderable)
    assert outcome.expression.endswith("crlf")


def test_a_lone_surrogate_can_be_sent() -> None:
    """It has no form in UTF-8: in a header and a url it becomes U+FFFD, in a body an escape."""
    assert header("${lone}") == "\ufffd"
    assert url("http://h/${lone}") == "http://h/%EF%BF%BD"
    assert body("${lone}") == "\ud800"


WILD = "1%26x%3D2%23%2F..%2F%3F%0D%0A%2541%5C"


@each_row(
    ("text", "expected"),
    [
        ("http://h/${wild}?q=${wild}#${wild}", f"http://h/{WILD}?q={WILD}#{WILD}"),
        ("http://h/a${dots}b/${text}", "http://h/a..b/a%20b"),
        ("http://h?q=${dots}&r=/${dots}", "http://h?q=..&r=/.."),
        ("service:/x/${text}", "service:/x/a%20b"),
        ("service://{serviceGateway}/oa/${jobId}", "service://{serviceGateway}/oa/member"),
        ("http://h/学 校?ü=${text}", "http://h/%E5%AD%A6%20%E6%A0%A1?%C3%BC=a%20b"),
        ("http://h/cb?u=${schedulingFeedbackUrl}", "http://h/cb?u=http%3A%2F%2Fme%2Ff%3Ftoken%3Da%26b"),
        ("http://h/${BASE}", "http://h/http%3A%2F%2Fbase%2Fv1"),
        ("http://h/${object}", "http://h/%7B%22k%22%3A%5B%22%C3%BC%22%2C1%5D%7D"),
    ],
)
def test_a_value_in_a_url_is_encoded_for_its_place(text: str, expected: str) -> None:
    """SPEC section 4: it can never change scheme, host or path depth."""
    assert url(text) == expected


@each_row(
    ("text", "expected"),
    [
        ("${BASE}", "http://base/v1"),
        ("${BASE}/x/${wild}", f"http://base/v1/x/{WILD}"),
        ("http://${HOST}/x", "http://host:81/x"),
        ("http://${HOST}${SLASH}/${text}", "http://host:81/a/b/a%20b"),
        ("${BASE}${SLASH}", "http://base/v1/a/b"),
        ("${BASE}${text}", "http://base/v1a%20b"),
        ("${schedulingFeedbackUrl}&x=${wild}", f"http://me/f?token=a&b&x={WILD}"),
        ("${both}://h/x", "environment://h/x"),
    ],
)
def test_the_environment_opens_a_url_as_it_is(text: str, expected: str) -> None:
    """SPEC section 4: as it is, and from the environment alone, whatever a response calls its members."""
    assert url(text) == expected


@each_row(
    "text",
    [
        "http://h/${dot}",
        "http://h/${dots}/x",
        "http://h/a/.${dot}?q",
        "http://h/.${empty}/x",
        "http://h/%2e${dot}",
        "http://h/${dot}${dot}#f",
        "${BASE}/${dots}",
        "service:/${empty}/evil",
    ],
)
def test_a_value_never_makes_a_dot_segment(text: str) -> None:
    """SPEC section 4: `.` or `..` as a path segment fails with `template`."""
    assert isinstance(url(text), Unrenderable)


@each_row(
    ("text", "expected"),
    [
        ("http://h/a/%2e%2${end}/x", "http://h/a/%2e%252e/x"),
        ("http://h/a%${end}${end}b", "http://h/a%25eeb"),
        ("http://h/?q=50%${end}", "http://h/?q=50%25e"),
        ("${BASE}/%2${end}", "http://base/v1/%252e"),
        ("http://h/%41${end}%", "http://h/%41e%"),
    ],
)
def test_a_value_never_completes_an_escape(text: str, expected: str) -> None:
    """SPEC section 4: else it would make a dot or a slash, and change the path's depth."""
    environment = {"BASE": "http://base/v1"}
    scope = Scope(system={}, environment=environment, root={"end": "e"}, aliases={})
    assert render_url(compile_url(text, names=NAMES), scope) == expected


def test_a_whole_url_is_the_text_of_the_response() -> None:
    """SPEC section 4: `urls.resolve_whole` judges it; what is no text is no URL."""
    assert url("${next}") == "/page/2"
    assert isinstance(url("${object}"), Unrenderable)
    assert isinstance(url("${$.nothing}"), Unrenderable)
    # SPEC section 4: where the variable holds no path, the value would lengthen the host
    scope = Scope(system={}, environment={"BASE": "http://base"}, root={"text": ".evil"}, aliases={})
    outcome = render_url(compile_url("${BASE}${text}", names=NAMES), scope)
    assert isinstance(outcome, Unrenderable)


def test_a_url_that_gets_far_too_long_is_given_up_before_its_values_are_encoded() -> None:
    """One value of a MiB, encoded 500 times, took 46 s."""
    scope = Scope(system={}, environment={}, root={"long": "/" * 40_000}, aliases={})
    refused = render_url(compile_url("http://h/?a=${long}&b=${long}", names=NAMES), scope)
    assert isinstance(refused, Unrenderable)
    assert (refused.expression, "65536" in refused.message) == ("long", True)
    # A definition must not fill the memory
    scope = Scope(system={}, environment={}, root={"big": ["x" * 1_000_000]}, aliases={})
    many = compile_json(["${big}|json"] * 100, names=NAMES)
    assert isinstance(render_json(many, scope), Unrenderable)
    assert isinstance(render_text(compile_text("${big}" * 100, names=NAMES), scope), Unrenderable)
    assert isinstance(render_json(compile_json(["${big}"] * 100, names=NAMES), scope), Unrenderable)
    # Many wide paths together must not hold up the service either
    scope = Scope(system={}, environment={}, root={"list": list(range(10_000))}, aliases={})
    template = compile_json(["${$.list[?@ == -1]}|json"] * 100, names=NAMES)
    assert isinstance(render_json(template, scope), Unrenderable)
    assert isinstance(body("${$.responses[?@.a == 1]}|json"), list)
