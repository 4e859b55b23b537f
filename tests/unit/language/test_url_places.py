"""The places of values in a URL (SPEC section 4, RFC 3986 section 3)."""

import pytest
from msgspec.structs import replace

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.template import compile_url
from tests.rows import each_row
from tests.unit.language.refusals import NAMES


def url_refusal(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        compile_url(text, names=NAMES)
    return caught.value


@each_row(
    "text",
    [
        "/path",
        "path",
        "",
        "//host/x",
        "ftp://host/x",
        "javascript:alert(1)",
        "http:host",
        "http:///x",
        "https://",
        "http://user@host/",
        "http://user:pw@host/${a}",
        "http://a b/",
        "$${BASE}/x",
        "http://h/\n",
    ],
)
def test_a_url_without_a_scheme_or_a_host_is_refused(text: str) -> None:
    """SPEC section 9: the forms of target URLs; user information is refused whatever the settings."""
    url_refusal(text)


@each_row(
    "text",
    [
        "${a}/x",
        "${a}://h/x",
        "http${a}://h/",
        "http:${a}",
        "http://${a}/x",
        "http://h${a}/x",
        "http://h:${a}/x",
        "http://${HOST}${a}/x",
        "service://${a}/x",
        "service:${a}",
        "queue://${a}",
        "${schedulingJobId}",
        "${schedulingJobId}/x",
        "http://${schedulingJobId}/x",
        "${schedulingFeedbackUrl.x}/y",
        "${$..url}",
        "${a}|json",
        "http://h/${a}|json",
    ],
)
def test_no_value_stands_where_it_decides_the_target(text: str) -> None:
    """SPEC section 4: only the environment and schedulingFeedbackUrl may open a url or be its authority."""
    url_refusal(text)


@each_row(
    "text",
    ["http://h/${secrets.A}", "http://h/a/${secrets.A}/b", "http://h/${a}/${secrets.A}?b=${secrets.A}"],
)
def test_a_secret_is_in_the_path_where_that_is_allowed(text: str) -> None:
    """The addresses of chat robots, which alerts have (SPEC section 14); refused in the urls of jobs."""
    url_refusal(text)
    assert compile_url(text, names=replace(NAMES, secret_paths=True)).secrets == {"A"}


@each_row("text", ["${secrets.A}", "http://${secrets.A}/", "${secrets.A}/x", "http://h/#${secrets.A}"])
def test_a_secret_is_never_where_it_decides_the_target(text: str) -> None:
    """Neither there."""
    with pytest.raises(ExpressionError):
        compile_url(text, names=replace(NAMES, secret_paths=True))
