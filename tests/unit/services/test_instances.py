"""The instances of services: who is online, who is not, and what is known of them (SPEC section 13)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.moments import SECOND
from scheduler_service.services.instances import OFFLINE_AFTER, Instance, Instances
from tests.present import present

TENANT, SERVICE = "default", "billing"


def instance(instance_id: str, seen: int = 0, **said: object) -> Instance:
    return Instance(SERVICE, TENANT, instance_id, f"http://{instance_id}.example", seen=seen, **said)  # type: ignore[arg-type]


def ids(instances: Instances, now: int) -> list[str]:
    return [one.instance_id for one in instances.online(TENANT, SERVICE, now)]


@pytest.fixture
def instances() -> Instances:
    return Instances()


def test_an_instance_is_online_for_ten_seconds_after_it_was_heard_of(instances: Instances) -> None:
    """Offline after 10 s (SPEC section 13)."""
    instances.register(instance("a", seen=1_000))
    assert ids(instances, 1_000) == ["a"]
    assert ids(instances, 1_000 + 10 * SECOND - 1) == ["a"]
    assert ids(instances, 1_000 + 10 * SECOND) == []
    assert [one.instance_id for one in instances.known(TENANT, SERVICE)] == ["a"]


def test_a_heartbeat_renews_it_and_says_how_it_is(instances: Instances) -> None:
    """Heartbeat `{load, draining}`; what is left out stays as it was (SPEC section 13)."""
    instances.register(instance("a"))
    assert ids(instances, 9_999) == ["a"]
    renewed = present(instances.renew(TENANT, SERVICE, "a", 9_000, load=0.5, draining=True))
    assert (renewed.load, renewed.draining, renewed.seen) == (0.5, True, 9_000)
    assert ids(instances, 18_999) == ["a"]
    again = present(instances.renew(TENANT, SERVICE, "a", 12_000))
    assert (again.load, again.draining) == (0.5, True)
    assert ids(instances, 22_000) == []
    # After a restart of the scheduler the instance has to register again (SPEC section 13)
    instances = Instances()
    assert instances.renew(TENANT, SERVICE, "a", 0) is None
    assert instances.online(TENANT, SERVICE, 0) == ()
    assert not instances.mark_draining(TENANT, SERVICE, "a")
    assert not instances.remove(TENANT, SERVICE, "a")
    # A draining answer marks it (SPEC section 13); a registration clears that mark
    instances = Instances()
    instances.register(instance("a"))
    instances.renew(TENANT, SERVICE, "a", 100, load=3)
    assert instances.mark_draining(TENANT, SERVICE, "a")
    assert [one.draining for one in instances.online(TENANT, SERVICE, 200)] == [True]
    instances.renew(TENANT, SERVICE, "a", 300)
    assert [one.draining for one in instances.online(TENANT, SERVICE, 300)] == [True]
    instances.register(instance("a", seen=400))
    assert [(one.draining, one.load) for one in instances.online(TENANT, SERVICE, 400)] == [(False, 3)]


def test_who_says_that_it_drains_does_so_until_it_says_otherwise(instances: Instances) -> None:
    """A repeated registration says nothing of it; a new start does: after a deregistration, or offline."""
    instances.register(instance("a"))
    instances.renew(TENANT, SERVICE, "a", 100, draining=True)
    kept = instances.register(instance("a", seen=200))
    assert (kept.draining, instances.register(instance("a", seen=300)).draining) == (True, True)
    instances.mark_draining(TENANT, SERVICE, "a")
    assert instances.register(instance("a", seen=350)).draining
    instances.renew(TENANT, SERVICE, "a", 400, draining=False)
    assert not instances.register(instance("a", seen=500)).draining
    instances.renew(TENANT, SERVICE, "a", 600, draining=True)
    assert not instances.register(instance("a", seen=600 + OFFLINE_AFTER)).draining
    instances.renew(TENANT, SERVICE, "a", 700 + OFFLINE_AFTER, draining=True)
    instances.remove(TENANT, SERVICE, "a")
    assert not instances.register(instance("a", seen=800 + OFFLINE_AFTER)).draining


def test_services_and_tenants_do_not_see_each_others_instances(instances: Instances) -> None:
    """Everything belongs to exactly one tenant (SPEC section 1)."""
    instances.register(instance("a"))
    assert instances.online("other", SERVICE, 0) == ()
    assert instances.online(TENANT, "other", 0) == ()
    # Readers may keep what they have made of it: its identity is its version
    instances = Instances()
    instances.register(instance("a"))
    first = instances.online(TENANT, SERVICE, 0)
    assert instances.online(TENANT, SERVICE, 5_000) is first
    instances.renew(TENANT, SERVICE, "a", 5_000)
    assert instances.online(TENANT, SERVICE, 5_000) is not first
    # Clean-up of offline instances (SPEC section 12)
    instances = Instances()
    instances.register(instance("a", seen=0))
    instances.register(instance("b", seen=5_000))
    instances.register(instance("c", seen=0))
    instances.remove(TENANT, SERVICE, "c", left_at=0)
    instances.forget(5_000)
    assert [one.instance_id for one in instances.known(TENANT, SERVICE)] == ["b"]
    assert instances.left_at(TENANT, SERVICE, "c") is None


NAMES = st.sampled_from("abcde")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["register", "renew", "remove", "drain", "look"]), NAMES, st.integers(0, 6_000)
    ),
    max_size=60,
)


@settings(deadline=None)
@given(STEPS)
def test_online_is_who_was_heard_of_in_time_in_order_of_ids(steps: list[tuple[str, str, int]]) -> None:
    """Whatever came before, `online` is a plain function of who was heard of when (SPEC section 13)."""
    instances = Instances()
    heard: dict[str, int] = {}
    now = 0
    for step, name, passed in steps:
        now += passed
        match step:
            case "register":
                instances.register(instance(name, seen=now))
                heard[name] = now
            case "renew":
                assert (instances.renew(TENANT, SERVICE, name, now) is not None) == (name in heard)
                heard |= {name: now} if name in heard else {}
            case "remove":
                assert instances.remove(TENANT, SERVICE, name) == (heard.pop(name, None) is not None)
            case "drain":
                assert instances.mark_draining(TENANT, SERVICE, name) == (name in heard)
        assert ids(instances, now) == sorted(one for one, at in heard.items() if at > now - OFFLINE_AFTER)


def test_who_subscribes_is_told_of_arrivals_and_departures(instances: Instances) -> None:
    """Not of heartbeats; and nothing after it has unsubscribed, which may be said twice."""
    told: list[tuple[str, str, str]] = []

    def listen(*place: str) -> None:
        told.append(place)  # type: ignore[arg-type]

    instances.subscribe(listen)
    instances.register(Instance("shop", "default", "a", "http://a.test"))
    instances.renew("default", "shop", "a", 1)
    instances.remove("default", "shop", "a", 2)
    assert told == [("default", "shop", "a")] * 2
    instances.unsubscribe(listen)
    instances.unsubscribe(listen)
    instances.register(Instance("shop", "default", "a", "http://a.test"))
    assert len(told) == 2
