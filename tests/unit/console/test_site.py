"""The console over HTTP: what is kept for ever, what is asked for again, and what is not there; its page."""

import gzip
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from scheduler_service.api.application import create_api
from scheduler_service.console.assets import ConsoleAsset, ConsoleFiles, read_vue
from scheduler_service.console.modules import ModuleError
from scheduler_service.console.site import POLICY, base_of, create_console, write_lacking, write_page
from tests.unit.api.world import World

CORE = b"export const a = 1;\n" * 20
FILES = ConsoleFiles(
    '<base href="{{base}}"><script src="{{assets}}core.js">',
    {
        "core.js": ConsoleAsset(CORE, gzip.compress(CORE), "text/javascript; charset=utf-8"),
        "screens/jobs.js": ConsoleAsset(b"s", gzip.compress(b"s"), "text/javascript; charset=utf-8"),
    },
    "0123456789abcdef",
)
FILE = "/console/a/0123456789abcdef/core.js"


def browse(read: Any, **options: Any) -> httpx.AsyncClient:
    """A browser of a service with a key; the console needs none."""
    api = create_api(
        World(admin_key="secret").deps, mounts={"/console": create_console(version="1.2", read=read)}
    )
    transport = httpx.ASGITransport(api, client=("192.0.2.1", 1), **options)
    return httpx.AsyncClient(transport=transport, base_url="https://jobs.example")


@pytest.fixture
async def browser() -> AsyncIterator[httpx.AsyncClient]:
    """One of a service with small files."""
    async with browse(lambda: FILES) as client:
        yield client


async def test_the_page_is_asked_for_again_each_time(browser: httpx.AsyncClient) -> None:
    """`no-cache` with an ETag, so that a new version is seen at once and an old page costs nothing."""
    for path in ("/console/", "/console/index.html"):
        answer = await browser.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.text == '<base href="/console/"><script src="a/0123456789abcdef/core.js">'
        again = await browser.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


async def test_files_are_kept_for_ever(browser: httpx.AsyncClient) -> None:
    """Their address changes with their content; compressed for who takes that, with a tag of its own."""
    packed = await browser.get(FILE, headers={"accept-encoding": "br, gzip;q=0.5"})
    assert packed.content == CORE
    assert packed.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["content-type"] == "text/javascript; charset=utf-8"
    assert packed.headers["vary"] == "accept-encoding"
    assert int(packed.headers["content-length"]) < len(CORE)
    plain = await browser.get(FILE, headers={"accept-encoding": "gzip;q=0, identity"})
    assert plain.content == CORE
    assert "content-encoding" not in plain.headers
    assert plain.headers["etag"] != packed.headers["etag"]
    again = await browser.get(FILE, headers={"if-none-match": f'"x", W/{packed.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")


async def test_every_answer_has_a_policy(browser: httpx.AsyncClient) -> None:
    """The page may use its own files; files and refusals, opened by themselves, may use nothing."""
    page = (await browser.get("/console/")).headers
    assert page["content-security-policy"] == POLICY
    assert page["referrer-policy"] == "no-referrer"
    assert "camera=()" in page["permissions-policy"]
    for path in (FILE, "/console/a/old/core.js", "/console/nothing"):
        headers = (await browser.get(path)).headers
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert headers["x-content-type-options"] == page["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    ["a/0000000000000000/core.js", "a/0123456789abcdef/none.js", "a/0123456789abcdef/", "a/", "a/core.js",
     "a/0123456789abcdef/%2e%2e/%2e%2e/files.py",
     "a/0123456789abcdef//etc/passwd", "a/0123456789abcdef/..%2f..%2ffiles.py",
     "a/0123456789abcdef/core.js/"],
)  # fmt: skip
async def test_other_files_are_not_there(browser: httpx.AsyncClient, path: str) -> None:
    """Those of an earlier version, and paths: names are looked up. The text says to reload."""
    answer = await browser.get(
        httpx.URL("https://jobs.example").copy_with(raw_path=b"/console/" + path.encode())
    )
    assert answer.status_code == 404
    assert "reload" in answer.text
    assert answer.headers["cache-control"] == "no-store"


async def test_head_and_other_methods(browser: httpx.AsyncClient) -> None:
    """HEAD is GET without its body; changes go to the API."""
    for path in ("/console/", FILE):
        head = await browser.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert int(head.headers["content-length"]) > 0
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            refused = await browser.request(method, path)
            assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_a_proxy_s_prefix_is_in_the_page(browser: httpx.AsyncClient) -> None:
    """Caches keep the two pages apart; one that is not a plain path is left out."""
    for said, base in [("/tools/punctual", "/tools/punctual/console/"), ('/"><script>', "/console/")]:
        answer = await browser.get("/console/", headers={"x-forwarded-prefix": said})
        assert f'<base href="{base}">' in answer.text
        assert answer.headers["vary"] == "x-forwarded-prefix"
    async with browse(lambda: FILES, root_path="/own") as client:
        assert '<base href="/own/console/">' in (await client.get("/own/console/")).text


async def test_browsers_are_sent_on(browser: httpx.AsyncClient) -> None:
    """From `/` and from `/console`, by addresses that hold under every prefix; programs see `/` as before."""
    front = await browser.get("/", headers={"accept": "text/html"})
    assert (front.status_code, front.headers["location"]) == (303, "console/")
    assert front.headers["vary"] == "accept"
    bare = await browser.get("/console?x=1")
    assert (bare.status_code, bare.headers["location"]) == (307, "console/?x=1")
    assert (await browser.get("/")).json()["data"]["links"]["/console"]


async def test_without_vue_the_page_says_what_to_install() -> None:
    """503, not kept; it is looked for again at the next request."""
    carriers = ["no_such_package", "trame_client"]

    def read() -> ConsoleFiles:
        read_vue(carriers.pop(0))
        return FILES

    async with browse(read) as client:
        answer = await client.get("/console/")
        assert (answer.status_code, answer.headers["cache-control"]) == (503, "no-store")
        assert "pip install &#x27;.[console]&#x27;" in answer.text
        assert answer.headers["content-security-policy"] == POLICY
        assert (await client.get("/console/")).status_code == 200


async def test_a_source_that_cannot_be_joined_is_named() -> None:
    """With its line: whoever changes the sources sees it in the browser."""

    def read() -> ConsoleFiles:
        raise ModuleError("core/x.js", 7, "a circle")

    async with browse(read) as client:
        answer = await client.get("/console/")
    assert (answer.status_code, "core/x.js:7: a circle" in answer.text) == (500, True)


async def test_files_are_read_once() -> None:
    """Also when many browsers come at once."""
    reads: list[int] = []

    def read() -> ConsoleFiles:
        reads.append(1)
        return FILES

    async with browse(read) as client:
        for _ in range(3):
            assert (await client.get("/console/")).status_code == 200
    assert len(reads) == 1


PAGE_FILES = ConsoleFiles('<base href="{{base}}"><script src="{{assets}}core.js">{{version}}', {}, "0123")


def test_the_template_is_filled() -> None:
    """Files lie below the base, under the hash of all."""
    page = write_page(PAGE_FILES, base="/p/console/", version="1.2").decode()
    assert page == '<base href="/p/console/"><script src="a/0123/core.js">1.2'
    # Values are escaped, also in the page that says what is missing
    assert "<i>" not in write_page(PAGE_FILES, base='/"><i>/', version="1").decode()
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
