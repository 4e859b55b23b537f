"""What daprd makes of calls: paths, bodies, refusals, and one turn at a time."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tests.http_program import Said
from tests.shown import shows
from tests.sidecar.behaviours.bare import Node, World
from tests.sidecar.behaviours.conftest import HOSTED

KINDS = ("Plain", "job_scheduler")
BODIES = {
    "null": b"null",
    "empty": b"",
    "json": b'{"a": 1}',
    "text": "wörter".encode(),
    "large": b"x" * 8192,
    "false": b"false",
    "zero": b"0",
    "quotes": b'""',
}


@shows("da-00001")
def test_what_the_configuration_names_is_hosted(node: Node) -> None:
    """daprd asks `/dapr/config` before it calls any actor; a type that is not named there has no home."""
    assert (node.app.calls[0].verb, node.app.calls[0].path) == ("GET", "/dapr/config")
    assert node.ask("PUT", "Plain/named/method/foo").status == 200
    before = len(node.app.calls)
    assert node.ask("PUT", "Unnamed/one/method/foo").status >= 400
    assert "Unnamed" not in HOSTED
    assert not [call for call in node.app.calls[before:] if call.actor.startswith("Unnamed")]


@shows("da-00002")
@pytest.mark.parametrize("verb", ["POST", "PUT"])
def test_the_first_call_activates(node: Node, verb: str) -> None:
    """Whatever the caller's verb, the application gets one PUT and nothing before it."""
    assert node.ask(verb, f"Plain/first-{verb}/method/foo", b"body").status == 200
    (call,) = node.app.heard(f"Plain/first-{verb}")
    assert (call.verb, call.path, call.body) == ("PUT", f"/actors/Plain/first-{verb}/method/foo", b"body")


@shows("da-00012")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BODIES)
def test_an_answer_comes_through_unchanged(node: Node, kind: str, name: str) -> None:
    """Body, its type and its length, also where the body looks like nothing; what is long has no length."""
    body = BODIES[name]
    node.app.works[f"{kind}/answer-{name}"] = lambda _: Said(body=body, headers={"content-type": "text/x"})
    reply = node.ask("PUT", f"{kind}/answer-{name}/method/foo")
    assert (reply.status, reply.body) == (200, body)
    assert reply.headers["content-type"] == "text/x"
    length = reply.headers.get("content-length")
    assert length == str(len(body)) or (length, name) == (None, "large")


@shows("da-00015")
@pytest.mark.parametrize(("kind", "turns"), [("Plain", 1), ("job_scheduler", 6)])
def test_an_error_that_the_application_marks_is_an_answer(node: Node, kind: str, turns: int) -> None:
    """The SDKs' mark of an error within a 200 is passed on as an answer.

    Only without a policy is it not tried again: under the retry of `resiliency.yaml` each such turn is taken
    six times. The product's host never sets that mark.
    """
    marked = Said(body=b"went wrong", headers={"X-DaprErrorResponseHeader": "true"})
    node.app.works[f"{kind}/marked"] = lambda _: marked
    reply = node.ask("PUT", f"{kind}/marked/method/foo")
    assert (reply.status, reply.body) == (200, b"went wrong")
    assert len(node.app.heard(f"{kind}/marked")) == turns


@shows("da-00016")
@pytest.mark.parametrize("kind", KINDS)
def test_a_method_that_nobody_knows_is_called_once(node: Node, kind: str) -> None:
    """404 of the application is final, also under the retry of `resiliency.yaml`."""
    node.app.works[f"{kind}/unknown"] = lambda _: Said(404)
    assert node.ask("PUT", f"{kind}/unknown/method/foo").status == 500
    assert len(node.app.heard(f"{kind}/unknown")) == 1


@shows("da-00018")
def test_a_body_over_the_limit_is_refused(world: World) -> None:
    """`--max-body-size` counts for actors; it must hold the largest document of a job."""
    narrow = world.join("narrow", {"entities": ["Narrow"]}, max_body_size="1Ki")
    try:
        assert narrow.ask("PUT", "Narrow/one/method/foo", b"x" * 500).status == 200
        reply = narrow.ask("PUT", "Narrow/one/method/foo", b"x" * 2048)
        assert reply.status >= 400, reply
        assert [len(call.body) for call in narrow.app.heard("Narrow/one")] == [500]
    finally:
        narrow.stop()


@shows("da-00019")
@pytest.mark.parametrize("method", ["a%3Fb", "a%23b", "a%00b", "a%0Db", "a%0Ab", "a%09b"])
def test_no_method_smuggles_a_query_or_a_line(node: Node, method: str) -> None:
    """400 before the application hears of it."""
    assert node.ask("PUT", f"Plain/smuggled/method/{method}").status == 400
    assert node.app.heard("Plain/smuggled") == []


@shows("da-00020")
@pytest.mark.parametrize("method", ["admin/../legit", "admin%2F..%2Flegit"])
def test_no_dots_reach_the_application(node: Node, method: str) -> None:
    """A path is cleaned before it is called."""
    node.ask("PUT", f"Plain/dots/method/{method}")
    assert all(".." not in call.path for call in node.app.heard("Plain/dots"))
    assert {call.path for call in node.app.heard("Plain/dots")} <= {"/actors/Plain/dots/method/legit"}
    assert node.app.heard("Plain/dots", "method/legit")


@shows("da-00030")
@pytest.mark.parametrize("kind", KINDS)
def test_a_crowd_is_served_one_by_one(node: Node, kind: str) -> None:
    """A thousand calls of one actor from 48 threads: each once, never two together, none lost."""
    node.app.works[f"{kind}/crowd"] = lambda call: Said(body=call.body)
    with ThreadPoolExecutor(48) as crowd:
        replies = list(
            crowd.map(lambda number: node.ask("PUT", f"{kind}/crowd/method/foo", number), range(1000))
        )
    assert [int(reply.body) for reply in replies] == list(range(1000))
    calls = node.app.heard(f"{kind}/crowd")
    assert sorted(call.json for call in calls) == list(range(1000))
    assert all(second.began >= first.ended > 0 for first, second in pairwise(calls))
