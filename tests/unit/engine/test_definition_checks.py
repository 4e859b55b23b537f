"""What is refused of a new definition, and goes on where it is stored (SPEC sections 4 and 7)."""

from copy import deepcopy
from typing import Any

import pytest

from client_sdk.models import ModelError, parse_definition
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.domain.replies import Refusal, RefusalCode, Taken
from scheduler_service.domain.turn_events import Created, Updated
from scheduler_service.engine.compile import compile_definition, compile_stored
from scheduler_service.engine.definition_checks import (
    METHODS,
    find_further,
    find_refused,
    find_too_many,
    literal_targets,
    read_stored,
    refuse_ownerless,
)
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row
from tests.unit.engine.rig import Rig, definition, program

URL = "http://target.test/"


def refused(**members: Any) -> list[tuple[str, str, str]]:
    """(pointer, code, message) of each problem of a definition."""
    with pytest.raises(DefinitionError) as caught:
        compile_definition(parse_definition(definition(**members)), Surroundings())
    return [(one.pointer, one.code, one.message) for one in caught.value.problems]


def test_what_every_execution_walks_through_has_a_limit() -> None:
    """1,000 headers of a request, and 1,000 labels; a stored definition goes on with more."""
    many = {f"a{n}": "1" for n in range(1_001)}
    members = {"labels": many, "request": [{"url": URL, "headers": many}]}
    assert [one[:2] for one in refused(**members)] == [
        ("/labels", "too_many"),
        ("/request/0/headers", "too_many"),
    ]
    compile_stored(parse_definition(definition(**members)), Surroundings())
    # By every service, so that jobs can move between them; a stored one goes on under its name
    message = "jobName must have at most 4000 characters, not 4001"
    assert refused(jobName="a" * 4_001) == [("/jobName", "too_long", message)]
    compile_definition(parse_definition(definition(jobName="a" * 4_000)), Surroundings())
    compile_stored(parse_definition(definition(jobName="a" * 4_001)), Surroundings())


def test_names_read_as_what_they_are() -> None:
    """Without control characters, and those that turn what follows; a stored one goes on under its name."""
    texts = {"jobName": "a\nb", "creator": "root\nadmin", "creatorName": "ann\u202enimda"}
    members = {**texts, "jobDescription": "a\x1b[2Jb", "labels": {"a\x7f/b": "c", "d": "\u2069"}}
    assert [one[:2] for one in refused(**members)] == [
        ("/jobName", "control"),
        ("/creator", "control"),
        ("/creatorName", "control"),
        ("/labels/a\x7f~1b", "control"),
        ("/labels/d", "control"),
        ("/jobDescription", "control"),
    ]
    compile_definition(
        parse_definition(definition(jobDescription="two\r\n\tlines", jobName="名 ✓")), Surroundings()
    )
    assert not compile_stored(parse_definition(definition(**members)), Surroundings()).program.problems


def test_what_is_too_many_is_seen_before_the_definition_is_read() -> None:
    """The same is said of it, wherever it stands; nothing of 1,000, or of what has another type."""
    many = {f"a{n}": "1" for n in range(1_001)}
    members = {
        "labels": many,
        "request": [{"url": URL}, {"url": URL, "headers": many}],
        "notification": [{"url": URL, "headers": many}],
        "checkUrl": {"url": URL, "headers": many},
        "cancelUrl": {"url": URL, "headers": many},
    }
    posted = definition(**members)
    found = [(one.pointer, one.code, one.message) for one in find_too_many(posted)]
    assert sorted(found) == sorted(refused(**members))
    most = dict(list(many.items())[:1_000])
    others = {"labels": most, "request": [7, {"headers": [1] * 1_001}], "notification": 1, "checkUrl": "x"}
    assert list(find_too_many(others)) == []


def test_a_method_that_http_does_not_know_is_refused_wherever_it_stands() -> None:
    """A typing error is no method; the message says what was meant."""
    members = {
        "request": [{"url": URL}, {"url": URL, "method": "gett"}],
        "notification": [{"url": URL, "method": "FOO"}],
        "cancelUrl": {"url": URL, "method": "PSOT"},
    }
    found = refused(**members)
    assert [one[:2] for one in found] == [
        ("/request/1/method", "choice"),
        ("/cancelUrl/method", "choice"),
        ("/notification/0/method", "choice"),
    ]
    assert [one[2].partition("; ")[2] for one in found] == [
        "did you mean GET?",
        "did you mean POST?",
        "use one of GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS",
    ]
    stored = compile_stored(parse_definition(definition(**members)), Surroundings()).program
    assert stored.steps[1].target.method == "GETT"


@each_row("method", sorted(METHODS))
def test_registered_methods_are_taken(method: str) -> None:
    """In upper or lower case; all but those that open a tunnel or name no request."""
    posted = definition(request=[{"url": URL, "method": method.lower()}])
    assert (
        compile_definition(parse_definition(posted), Surroundings()).program.steps[0].target.method == method
    )


@each_row("queues", [True, False])
def test_a_bad_url_is_offered_what_is_allowed_there(queues: bool) -> None:
    """`queue://` for steps of a host that has queues alone; `system://` never."""
    members = {
        "request": [{"url": "ftp://target.test/"}],
        "checkUrl": "target.test/check",
        "cancelUrl": {"url": "ftp://target.test/"},
        "notification": [{"url": "mailto:somebody"}],
        "async": True,
    }
    with pytest.raises(DefinitionError) as caught:
        compile_definition(parse_definition(definition(**members)), Surroundings(queues=queues))
    said = {one.pointer: one.message for one in caught.value.problems}
    plain = "a url begins with one of http://, https://, service:// or service:/"
    queue = "a url begins with one of http://, https://, service://, queue:// or service:/"
    assert said == {
        "/request/0/url": f"{queue if queues else plain}, not 'ftp://target.test/' (column 1)",
        "/checkUrl/url": f"{plain}, not 'target.test/check'; "
        "did you mean http://target.test/check? (column 1)",
        "/cancelUrl/url": f"{plain}, not 'ftp://target.test/' (column 1)",
        "/notification/0/url": f"{plain}, not 'mailto:somebody' (column 1)",
    }


def test_the_host_of_a_service_is_not_judged() -> None:
    """With `serviceName` the host in the URL is the service's, of a step and of a check."""
    url = "http://10.0.0.7/run"
    check = {"checkUrl": {"url": url, "serviceName": "shop"}}
    step = {"url": url, "serviceName": "shop"}
    told = {"notification": [{"url": url}]}
    posted = parse_definition(definition(request=[step, {"url": url}], **check, **told))
    assert list(literal_targets(posted)) == [
        ("/request/1/url", "http://10.0.0.7"),
        ("/notification/0/url", "http://10.0.0.7"),
    ]


@each_row(
    ("url", "dropped"),
    [
        ("queue://name/b/c?x=1", "/b/c?x=1"),
        ("queue://name?x=${$.x}", "?x=${$.x}"),
        ("queue://name/${$.n}", "/${$.n}"),
        ("queue://name/", "/"),
        ("queue://name#b", "#b"),
    ],
)
def test_a_queue_with_a_path_is_refused(url: str, dropped: str) -> None:
    """The instance would never see it. A stored definition goes on: the path is dropped, as before."""
    members = {"request": [{"url": URL}, {"url": url}]}
    ((pointer, code, message),) = refused(**members)
    assert (pointer, code) == ("/request/1/url", "invalid")
    assert repr(dropped) in message
    assert f"write {url.removesuffix(dropped)}, and" in message
    assert compile_stored(parse_definition(definition(**members)), Surroundings()).program.job_id


@each_row(
    ("url", "is_host"),
    [
        ("127.0.0.1:18412/x", True),
        ("localhost:8000", True),
        ("shop:8000/x?a=1", True),
        ("orders.test", True),
        ("/orders", False),
        ("orders", False),
        ("htp://orders.test", False),
    ],
)
def test_a_url_without_scheme_is_offered_one(url: str, is_host: bool) -> None:
    """The message names the value, and `http://` before what is a host."""
    posted = parse_definition(definition(request=[{"url": url}]))
    with pytest.raises(DefinitionError) as caught:
        compile_definition(posted, Surroundings())
    [problem] = caught.value.problems
    assert f"not {url!r}" in problem.message
    assert (f"did you mean http://{url}?" in problem.message) is is_host


@each_row(
    ("members", "named", "unsent"),
    [
        ({"colour": "red"}, ["/colour"], ""),
        ({"maxRetries": -1, "labels": [1]}, ["/labels", "/maxRetries"], ""),
        ({"jobName": None}, ["/jobName"], ""),
        ({"request": "x"}, ["/request", "/request/0"], "/request/0"),
        ({"request": [{"url": URL}, {"method": "GET"}]}, ["/request/1", "/request/1/url"], "/request/1"),
        ({"request": [{"url": URL}, 7]}, ["/request/1"], "/request/1"),
        ({"request": [{"url": URL, "body": 1, "a": 1}]}, ["/request/0", "/request/0/a"], "/request/0"),
        ({"retry": [{"errorEquals": "500"}, {"intervalSeconds": 1}]}, ["/retry/1/errorEquals"], ""),
        ({"notification": [{"url": 1}]}, ["/notification/0", "/notification/0/url"], "/notification/0"),
        ({"timer": {"period": "5m", "every": "5m"}}, ["/timer/every"], ""),
        ({"timer": 7}, ["/timer"], ""),
    ],
)
def test_what_a_version_no_longer_reads_is_left_out(
    members: dict[str, Any], named: list[str], unsent: str
) -> None:
    """The job stays one; a request of which something is left out is not sent, a timer stands still."""
    read, left_out = read_stored({**definition(), **members})
    program = compile_stored(read, Surroundings(), left_out=left_out).program
    assert sorted(one.pointer for one in program.problems) == named
    targets = {f"/request/{step.index}": step.target for step in program.steps}
    targets |= {f"/notification/{place}": one.target for place, one in enumerate(program.notifications)}
    assert [place for place, target in targets.items() if target.refused] == ([unsent] if unsent else [])
    assert bool(program.timer.trouble) is ("timer" in members)


@each_row(
    ("members", "is_refused"),
    [
        ({}, True),
        ({"async": True, "checkUrl": "http://t.test/check"}, False),
        ({"request": [{"url": "queue://work"}]}, False),
        ({"request": [{"url": "queue://work"}, {"url": "http://t.test/"}]}, True),
    ],
)
def test_no_limit_is_for_asynchronous_and_claimed_work(members: dict[str, Any], is_refused: bool) -> None:
    """Elsewhere `timeoutSeconds` 0 says what to give instead (SPEC section 2)."""
    posted = parse_definition(definition(timeoutSeconds=0, **members))
    found = [(one.pointer, one.code) for one in find_refused(posted, Surroundings())]
    assert found == [("/timeoutSeconds", "no_limit")] * is_refused


OWN = [{"url": "service:/run"}]
PLAIN = {"request": [{"url": "http://x.test"}]}


@each_row(
    ("members", "pointer"),
    [
        ({"request": OWN}, "/request/0/url"),
        ({"request": [{"url": "SERVICE:/run?a=${b}"}]}, "/request/0/url"),
        ({"request": [{"url": "service://{serviceName}/${b}"}]}, "/request/0/url"),
        ({"request": [{"url": "service://{serviceGateway}/{serviceName}/x"}]}, "/request/0/url"),
        (PLAIN | {"cancelUrl": OWN[0]}, "/cancelUrl"),
        (PLAIN | {"async": True, "checkUrl": "service:/check"}, "/checkUrl"),
        (
            PLAIN | {"notification": [{"url": "http://x.test"}, *OWN]},
            "/notification/1/url",
        ),
        (PLAIN, None),
        ({"request": [{"url": "service://shop/x"}, {"url": "service://{serviceGateway}/shop/x"}]}, None),
        ({"request": [{"url": "${$.next}"}]}, None),
    ],
)
def test_the_first_url_of_the_owner_is_named(members: dict[str, Any], pointer: str | None) -> None:
    """With its pointer and the remedy; with an owner nothing is refused."""
    found = refuse_ownerless(program(**members), "")
    assert (found and found.pointer) == pointer
    assert found is None or (found.code is RefusalCode.INVALID and "X-Service" in found.message)
    assert refuse_ownerless(program(**members), "shop") is None


def test_a_creation_without_owner_makes_nothing() -> None:
    """One with an owner does, and one that is restored as it was."""
    rig = Rig(request=OWN).create()
    assert isinstance(rig.reply, Refusal)
    assert rig.document is None
    for values in ({"owner": "shop"}, {"restored": True}):
        rig = Rig(request=OWN).create(**values)
        assert rig.reply == Taken()
    # An update keeps the owner unless it names one, and is refused where there is none
    rig = Rig(request=OWN).create(owner="shop")
    rig.deliver(Updated(1))
    assert rig.head.owner == "shop"
    rig.deliver(Updated(1, owner="store"))
    assert rig.head.owner == "store"
    bare = Rig(request=OWN).create(restored=True)
    before = bare.document
    assert isinstance(bare.deliver(Updated(1)).reply, Refusal)
    assert bare.document is before


def test_an_equal_definition_of_another_service_is_a_conflict_where_it_calls_its_owner() -> None:
    """`service:/run` of another service is another place; without such a URL nothing differs."""
    for members, owner, expected in (
        ({"request": OWN}, "store", RefusalCode.CONFLICT),
        ({"request": OWN}, "shop", None),
        ({"request": OWN}, "", None),
        (PLAIN, "store", None),
    ):
        rig = Rig(**members).create(owner="shop")
        fingerprint = program(**members).fingerprint
        rig.deliver(Created(uid="other", key=b"key", fingerprint=fingerprint, owner=owner))
        assert getattr(rig.reply, "code", None) is expected
        assert rig.head.owner == "shop"
        if expected is not None:
            assert isinstance(rig.reply, Refusal)
            assert "'shop'" in rig.reply.message
            assert "'store'" in rig.reply.message


@each_row(
    ("members", "texts"),
    [
        ({"maxRetries": -1, "request": [{"url": "http://a.test/${"}]}, ["/request/0/url"]),
        ({"maxRetries": "x", "timer": {"period": "0 0 25 * * ?"}}, ["/timer/period"]),
        ({"request": [{"url": 3}, {"url": URL, "body": {"a": "${$[}"}}]}, ["/request/1/body/a"]),
        ({"request": [{"url": "http://${", "extra": 1}], "qos": 7}, ["/request/0/url"]),
        ({"timer": {"period": "0 0 25 * * ?", "jitterSeconds": -1}}, []),
        ({"async": "perhaps", "timeoutSeconds": 0}, []),
        ({"request": [{"body": "${"}]}, ["/request/0/body"]),
        ({"request": []}, []),
    ],
)
def test_texts_are_told_of_beside_a_wrong_form(members: dict[str, Any], texts: list[str]) -> None:
    """At once, and nothing that only follows from what is left out."""
    posted = definition(**members)
    with pytest.raises(ModelError) as caught:
        parse_definition(posted)
    wrong = [one.pointer for one in caught.value.problems]
    further = find_further(deepcopy(posted), wrong, lambda rest: compile_definition(rest, Surroundings()))
    assert [one.pointer for one in further] == texts
