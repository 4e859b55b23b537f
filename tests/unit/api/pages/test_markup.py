"""HTML out of texts: nothing of a text becomes markup."""

import hashlib
import re
from base64 import b64encode

from scheduler_service.api.pages.markup import Html, headers, join, page, prose, table, tag


def test_texts_are_escaped_and_html_is_not() -> None:
    """In elements and in attributes."""
    assert tag("p", "<b>", Html("<i>")) == "<p>&lt;b&gt;<i></p>"
    assert tag("a", "x", href='"><script>') == '<a href="&quot;&gt;&lt;script&gt;">x</a>'
    assert join("a & b", tag("br")) == "a &amp; b<br>"
    assert tag("nav", ["<", tag("b", "x")], aria_label="l", class_="c") == (
        '<nav aria-label="l" class="c">&lt;<b>x</b></nav>'
    )
    # Between backticks; also escaped
    assert prose("use `<a>` here") == "use <code>&lt;a&gt;</code> here"
    # A table without rows is nothing: neither are its headings
    assert table(("a",), ()) == ""


def test_the_style_is_the_one_that_the_policy_names() -> None:
    """By its digest: a browser would ignore any other one."""
    style = re.search(r"<style>(.*?)</style>", page("t").decode(), re.DOTALL)
    assert style is not None
    digest = b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in headers()["content-security-policy"]
