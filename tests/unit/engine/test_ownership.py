"""A definition that calls the job's owner needs one (SPEC section 9)."""

from typing import Any

from scheduler_service.domain.replies import Refusal, RefusalCode, Taken
from scheduler_service.domain.turn_events import Created, Updated
from scheduler_service.engine.ownership import refuse_ownerless
from tests.rows import each_row
from tests.unit.engine.rig import Rig, program

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


def test_an_update_keeps_the_owner_unless_it_names_one() -> None:
    """And is refused, with nothing changed, where there is none."""
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
