"""The running instances of services, in the memory of this process alone.

Nothing of it is stored: an instance registers anew every 30 s, so a scheduler that starts knows all of them
before long (docs/decisions/0007-routing-state-in-memory.md).
"""

import msgspec

from scheduler_service.domain.moments import SECOND

OFFLINE_AFTER = 10 * SECOND

Key = tuple[str, str]
"""Tenant and service."""


class Instance(msgspec.Struct, frozen=True, gc=False):
    """One running process of a service, as it was last heard of.

    `address` is the base `http(s)://host[:port][/path]` under which it is called, empty for one that only
    claims from queues. `capacity` None: no limit. `load` is what it said of itself, by its own measure;
    `seen` the moment it was last heard of (steady ms). A draining one takes no new work; `drains_by_word`
    tells that it said so itself, and not an answer to a call. `declares` tells which timers it registered
    with; empty: none.
    """

    service: str
    tenant: str
    instance_id: str
    address: str
    tags: tuple[str, ...] = ()
    capacity: int | None = None
    description: str = ""
    load: float = 0.0
    draining: bool = False
    drains_by_word: bool = False
    seen: int = 0
    declares: bytes = b""


class Instances:
    """All instances that this process has heard of. The moments it is given are steady ms.

    An instance is offline once nothing was heard of it for `offline_after`; it is kept, for people to see,
    until `forget` removes it. All calls are plain memory and raise nothing.
    """

    def __init__(self, *, offline_after: int = OFFLINE_AFTER) -> None:
        self.offline_after = offline_after
        self._known: dict[Key, dict[str, Instance]] = {}
        self._online: dict[Key, tuple[int, tuple[Instance, ...]]] = {}

    def online(self, tenant: str, service: str, now: int) -> tuple[Instance, ...]:
        """The instances that were heard of in time, draining ones too, in order of their ids.

        The same tuple comes again until one of them changes, so its identity may serve as a version.
        """
        key = (tenant, service)
        fresh = self._online.get(key)
        if fresh is not None and now < fresh[0]:
            return fresh[1]
        found = tuple(one for one in self._known.get(key, {}).values() if self.is_online(one, now))
        if found:
            self._online[key] = (min(one.seen for one in found) + self.offline_after, found)
        return found

    def known(self, tenant: str, service: str) -> tuple[Instance, ...]:
        """All of them, offline ones too, in order of their ids."""
        return tuple(self._known.get((tenant, service), {}).values())

    def get(self, tenant: str, service: str, instance_id: str) -> Instance | None:
        """This instance, be it offline, or None."""
        return self._known.get((tenant, service), {}).get(instance_id)

    def is_online(self, instance: Instance, now: int) -> bool:
        """Whether it was heard of in time."""
        return instance.seen > now - self.offline_after

    def allowance(self, tenant: str, service: str, instance_id: str, now: int) -> int | None:
        """How many pieces of work it takes at a time, by its registration: none while it is draining.

        None: as many as it asks for; so it is with one that is not online, of which nothing is known.
        """
        found = self.get(tenant, service, instance_id)
        if found is None or not self.is_online(found, now):
            return None
        return 0 if found.draining else found.capacity

    def register(self, instance: Instance) -> Instance:
        """Takes an instance up, or its new description. Answers what is kept.

        What a heartbeat said of its load stays, and that it is draining as long as it is online: a repeated
        registration says nothing of it. One that was offline, or marked by an answer alone, is ready again.
        """
        key = (instance.tenant, instance.service)
        known = self._known.setdefault(key, {})
        earlier = known.get(instance.instance_id)
        if earlier is None:
            known[instance.instance_id] = instance
            self._known[key] = dict(sorted(known.items()))
        else:
            drains = earlier.drains_by_word and self.is_online(earlier, instance.seen)
            instance = msgspec.structs.replace(
                instance, load=earlier.load, draining=drains, drains_by_word=drains
            )
            known[instance.instance_id] = instance
        self._online.pop(key, None)
        return instance

    def renew(
        self,
        tenant: str,
        service: str,
        instance_id: str,
        now: int,
        *,
        load: float | None = None,
        draining: bool | None = None,
    ) -> Instance | None:
        """A heartbeat: it lives, and this is how it is; None leaves a value as it was.

        Answers None where the instance is not known, so that it registers again.
        """
        earlier = self.get(tenant, service, instance_id)
        if earlier is None:
            return None
        renewed = msgspec.structs.replace(
            earlier,
            seen=now,
            load=earlier.load if load is None else load,
            draining=earlier.draining if draining is None else draining,
            drains_by_word=earlier.drains_by_word if draining is None else draining,
        )
        self._put(renewed)
        return renewed

    def mark_draining(self, tenant: str, service: str, instance_id: str) -> bool:
        """It answered that it takes no more work; a heartbeat or registration may say otherwise later.

        False where it is not known.
        """
        earlier = self.get(tenant, service, instance_id)
        if earlier is None:
            return False
        self._put(msgspec.structs.replace(earlier, draining=True))
        return True

    def remove(self, tenant: str, service: str, instance_id: str) -> bool:
        """It has deregistered. False where it is not known."""
        key = (tenant, service)
        if self._known.get(key, {}).pop(instance_id, None) is None:
            return False
        self._online.pop(key, None)
        return True

    def forget(self, before: int) -> int:
        """Removes those of which nothing was heard since `before`; answers how many (SPEC section 12)."""
        gone = [one for each in self._known.values() for one in each.values() if one.seen < before]
        for instance in gone:
            self.remove(instance.tenant, instance.service, instance.instance_id)
        return len(gone)

    def services(self, tenant: str) -> tuple[str, ...]:
        """The names of the services of which instances are known, in order."""
        return tuple(
            sorted(name for (owner, name), those in self._known.items() if owner == tenant and those)
        )

    def _put(self, instance: Instance) -> None:
        """In the place that it has: the order of ids stays."""
        key = (instance.tenant, instance.service)
        self._known[key][instance.instance_id] = instance
        self._online.pop(key, None)
