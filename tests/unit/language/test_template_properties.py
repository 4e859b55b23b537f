"""What holds of templates for any text (SPEC section 4)."""

from urllib.parse import quote, urlsplit

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.texts import scrub
from scheduler_service.language.expression import Names
from scheduler_service.language.rendering import (
    Rendered,
    Scope,
    Unrenderable,
    render_json,
    render_url,
)
from scheduler_service.language.template import compile_json, compile_url

NAMES = Names(environment=frozenset({"BASE"}))
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
    body = compile_json(["${v}", "${v}|json", "<${$.v}>"], names=NAMES)
    assert render_json(body, scope(value)) == Rendered([value, value, f"<{value}>"])


@given(
    ANY, ANY, st.sampled_from(["http://h:8/a/${v}/${$.w}?p=${v}#${w}", "${BASE}/x${v}/${w}?q=${v}&r=${w}#"])
)
@settings(deadline=None)
def test_a_value_never_changes_where_a_url_goes(value: str, other: str, text: str) -> None:
    """SPEC section 4: neither scheme, nor host, nor path depth, nor the number of parameters."""
    template = compile_url(text, names=NAMES)

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
    template = compile_json(text.replace("${", "$${"), names=NAMES)
    assert template.is_constant
    assert template.node == text
