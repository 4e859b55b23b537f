"""The page: the base of its links, and nothing of a caller in it unescaped."""

from scheduler_service.console.assets import ConsoleFiles
from scheduler_service.console.site import POLICY, base_of, write_lacking, write_page

FILES = ConsoleFiles('<base href="{{base}}"><script src="{{assets}}core.js">{{version}}', {}, "0123")


def test_the_template_is_filled() -> None:
    """Files lie below the base, under the hash of all."""
    page = write_page(FILES, base="/p/console/", version="1.2").decode()
    assert page == '<base href="/p/console/"><script src="a/0123/core.js">1.2'


def test_values_are_escaped() -> None:
    """Also in the page that says what is missing."""
    assert "<i>" not in write_page(FILES, base='/"><i>/', version="1").decode()
    page = write_lacking("<b> & so on", base='/"><i>/').decode()
    assert "&lt;b&gt; &amp; so on" in page
    assert '"><i>' not in page


def test_the_base_is_the_path_of_the_mount_below_the_prefix() -> None:
    """Which its own server or a proxy has put before it."""
    scope = {"headers": [], "root_path": "/console", "app_root_path": ""}
    assert base_of(scope) == "/console/"
    assert base_of({**scope, "root_path": "/x/console", "app_root_path": "/x"}) == "/x/console/"
    assert base_of({**scope, "headers": [(b"x-forwarded-prefix", b"/y")]}) == "/y/console/"


def test_the_policy_allows_own_files_alone() -> None:
    """No inline script or style, no frame, no other machine."""
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
    assert {part.strip().split(" ", 1)[0]: part.strip().split(" ", 1)[1] for part in POLICY.split(";")} == {
        "default-src": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
        "object-src": "'none'",
    }
