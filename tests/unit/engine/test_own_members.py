"""The members that differ within a shape are read by the rules of the model, also where they are repeated."""

import msgspec
import pytest
from pydantic import ValidationError

from scheduler_service.engine.compile_cache import read_members
from scheduler_service.engine.own_members import OwnMembers
from tests.rows import each_row


def read(own: OwnMembers, text: bytes) -> object:
    """What `own` says of a definition."""
    members = read_members(text)
    assert members is not None
    return dict(own.read(members))


def expected(name: str, labels: dict[str, str] | None = None, owned: str | None = None) -> object:
    """A definition's own members."""
    return {"jobName": name, "jobDescription": None, "objectId": owned, "labels": labels or {}}


def test_each_definition_has_its_own() -> None:
    """Also where the one before it had others, or left some out."""
    own = OwnMembers()
    for _ in range(2):
        assert read(own, b'{"jobName":"a"}') == expected("a")
        assert read(own, b'{"jobName":"a","objectId":"o"}') == expected("a", owned="o")
        assert read(own, b'{"jobName":"a","labels":{"o":"p"}}') == expected("a", {"o": "p"})
        assert read(own, b'{"jobName":"a","labels":{"o":"q"}}') == expected("a", {"o": "q"})
        assert read(own, b'{"jobName":"b","labels":null}') == expected("b")


def test_the_same_ones_are_read_once() -> None:
    """An array of jobs of one name costs one reading of it."""
    own = OwnMembers()
    first = own.read({"jobName": msgspec.Raw(b'"a"'), "jobId": msgspec.Raw(b'"1"')})
    assert own.read({"jobName": msgspec.Raw(b'"a"'), "jobId": msgspec.Raw(b'"2"')}) is first


@each_row("wrong", [b'{"jobName":""}', b'{"jobName":"a","labels":{"":1}}'])
def test_what_is_wrong_stays_wrong(wrong: bytes) -> None:
    """It is not kept in the place of what was right before it."""
    own = OwnMembers()
    assert read(own, b'{"jobName":"a"}') == expected("a")
    for _ in range(2):
        with pytest.raises(ValidationError):
            read(own, wrong)
    assert read(own, b'{"jobName":"a"}') == expected("a")
