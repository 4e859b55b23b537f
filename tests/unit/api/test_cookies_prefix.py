"""The path prefix of a proxy is taken over where it is a plain path, and in no other form."""

from scheduler_service.api.cookies import public_prefix
from tests.rows import each_row


def scope(said: str | None = None, **members: str) -> dict[str, object]:
    headers = [] if said is None else [(b"x-forwarded-prefix", said.encode("latin-1"))]
    return {"type": "http", "headers": headers, **members}


@each_row(
    ("said", "prefix"),
    [
        (None, ""),
        ("/punctual", "/punctual"),
        ("/tools/punctual-2/", "/tools/punctual-2"),
        ("/a.b/~c", "/a.b/~c"),
    ],
)
def test_plain_paths_count(said: str | None, prefix: str) -> None:
    """Without a slash at their end."""
    assert public_prefix(scope(said)) == prefix


@each_row(
    "said",
    ["", "/", "punctual", "//evil.example", "/\\evil.example", "https://evil.example", '/"><script>', "/a b",
     "/a;Domain=x", "/a%2f..", "/../x", "/a/../b", "/a/..", "/.", "/a//b", "/a\r\nx: y",
     "/" + "a" * 200, "/é"],
)  # fmt: skip
def test_all_else_is_left_out(said: str) -> None:
    """Addresses of other machines, markup, attributes of cookies, ways upwards, and what is too long."""
    assert public_prefix(scope(said)) == ""
    assert public_prefix(scope(said, root_path="/own")) == "/own"


def test_the_root_path_of_the_server_counts_without_a_header() -> None:
    """Below a mount, too; what cannot stand in an address is quoted."""
    assert public_prefix(scope(root_path="/own/")) == "/own"
    assert public_prefix(scope(root_path="/own/console", app_root_path="/own")) == "/own"
    assert public_prefix(scope("/proxy", root_path="/own/console", app_root_path="/own")) == "/proxy"
    assert public_prefix(scope(root_path="//evil.example/<b>")) == "/evil.example/%3Cb%3E"
