"""The running instances of services, in the memory of this process.

One process does not store them: an instance registers again every 30 s, so a scheduler that starts soon has
all of them (docs/decisions/0007-routing-state-in-memory.md). The nodes of a cluster share them
(docs/decisions/0042-one-registry.md).
"""

from collections.abc import Callable, Iterator

import msgspec

from scheduler_service.domain.moments import DAY, SECOND

OFFLINE_AFTER = 10 * SECOND
FORGOTTEN_AFTER = DAY

Key = tuple[str, str]
"""Tenant and service."""
Listener = Callable[[str, str, str], object]
"""Takes tenant, service and id of an instance that has registered or left."""


class Instance(msgspec.Struct, frozen=True, gc=False):
    """One running process of a service, as of its last registration or heartbeat.

    `address` is the base `http(s)://host[:port][/path]` of its calls, empty for one that only claims from
    queues. `capacity` None: no limit. `load` is what it reported, by its own measure; `seen` the moment of
    its last sign of life (steady ms). A draining one takes no new work; `drains_by_word`: it reported that
    itself, instead of by the answer to a call; `said`: when it last said whether it drains. One that
    `refuses` did not accept a connection since its last sign of life, and is not called. `declares` is the
    digest of the timers that it registered with; empty: none. `vouched` as in `Service`.
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
    refuses: bool = False
    said: int = 0
    vouched: bool | None = None


class Instances:
    """All known instances. Moments are steady ms.

    An instance is offline after `offline_after` without a sign of life; it stays visible until `forget`
    removes it. No method does I/O or raises.
    """

    def __init__(self, *, offline_after: int = OFFLINE_AFTER) -> None:
        self.offline_after = offline_after
        self._known: dict[Key, dict[str, Instance]] = {}
        self._online: dict[Key, tuple[int, tuple[Instance, ...]]] = {}
        self._listeners: list[Listener] = []
        self._left: dict[tuple[str, str, str], int] = {}

    def subscribe(self, listener: Listener) -> None:
        """Calls `listener` after each registration and deregistration, until `unsubscribe`.

        Also after the heartbeat of an instance that was offline, refused connections or was draining.
        """
        self._listeners.append(listener)

    def unsubscribe(self, listener: Listener) -> None:
        """Calls it no more; does nothing where it is not called."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def online(self, tenant: str, service: str, now: int) -> tuple[Instance, ...]:
        """The online instances, including draining ones, in order of their ids.

        Returns the same tuple until one of them changes, so its identity can serve as a version.
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
        """All instances, including offline ones, in order of their ids."""
        return tuple(self._known.get((tenant, service), {}).values())

    def get(self, tenant: str, service: str, instance_id: str) -> Instance | None:
        """This instance, online or offline, or None."""
        return self._known.get((tenant, service), {}).get(instance_id)

    def all(self) -> Iterator[Instance]:
        """All instances of all services, including offline ones."""
        return (one for each in self._known.values() for one in each.values())

    def left_at(self, tenant: str, service: str, instance_id: str) -> int | None:
        """When this instance deregistered; None: it is known, or never was."""
        return self._left.get((tenant, service, instance_id))

    def has_had(self, tenant: str, service: str) -> bool:
        """Whether any instance of the service is known, or has left."""
        key = (tenant, service)
        return bool(self._known.get(key)) or any(place[:2] == key for place in self._left)

    def is_online(self, instance: Instance, now: int) -> bool:
        """Whether its last sign of life is recent enough."""
        return instance.seen > now - self.offline_after

    def allowance(self, tenant: str, service: str, instance_id: str, now: int) -> int | None:
        """How many parts it may hold at a time by its registration; 0 while it is draining.

        None: no limit, as for an instance that is not online.
        """
        found = self.get(tenant, service, instance_id)
        if found is None or not self.is_online(found, now):
            return None
        return 0 if found.draining else found.capacity

    def register(self, instance: Instance) -> Instance:
        """Adds an instance or replaces its description. Returns what is stored.

        Its load stays as its last heartbeat reported it, and so does draining while it is online: a repeated
        registration does not mention them. One that was offline, or draining only by an answer, is ready.
        """
        instance = self.prepare(instance)
        self._add(instance)
        self._tell(instance.tenant, instance.service, instance.instance_id)
        return instance

    def prepare(self, instance: Instance) -> Instance:
        """What `register` would store of it."""
        earlier = self.get(instance.tenant, instance.service, instance.instance_id)
        if earlier is None or not self.is_online(earlier, instance.seen):
            load = instance.load if earlier is None else earlier.load
            return msgspec.structs.replace(instance, load=load, said=instance.seen)
        drains = earlier.drains_by_word
        return msgspec.structs.replace(
            instance, load=earlier.load, draining=drains, drains_by_word=drains, said=earlier.said
        )

    def adopt(self, instance: Instance) -> None:
        """Takes an instance as another node knows it; what was heard of it here since then stays."""
        earlier = self.get(instance.tenant, instance.service, instance.instance_id)
        if earlier is not None and earlier.seen >= instance.seen:
            instance = msgspec.structs.replace(
                instance, seen=earlier.seen, load=earlier.load, refuses=earlier.refuses
            )
        self._add(instance)
        self._tell(instance.tenant, instance.service, instance.instance_id)

    def hear(self, tenant: str, service: str, instance_id: str, seen: int, load: float) -> None:
        """Another node has heard of it at `seen`; nothing where that is not known, or no news."""
        earlier = self.get(tenant, service, instance_id)
        if earlier is None or earlier.seen >= seen:
            return
        self._put(msgspec.structs.replace(earlier, seen=seen, load=load, refuses=False))
        if earlier.refuses or not self.is_online(earlier, seen):
            self._tell(tenant, service, instance_id)

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
        """Takes a heartbeat; None leaves a value unchanged.

        Returns None if the instance is not known, so that it registers again.
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
            said=earlier.said if draining is None else now,
            refuses=False,
        )
        self._put(renewed)
        is_ready_again = earlier.refuses or (earlier.draining and not renewed.draining)
        if is_ready_again or not self.is_online(earlier, now):
            self._tell(tenant, service, instance_id)
        return renewed

    def mark_draining(self, tenant: str, service: str, instance_id: str) -> bool:
        """Marks an instance that answered a call with "draining"; a later heartbeat may clear it.

        False if it is not known.
        """
        earlier = self.get(tenant, service, instance_id)
        if earlier is None:
            return False
        self._put(msgspec.structs.replace(earlier, draining=True))
        return True

    def mark_refused(self, tenant: str, service: str, instance_id: str) -> None:
        """Marks an instance that did not accept a connection, until its next heartbeat or registration."""
        earlier = self.get(tenant, service, instance_id)
        if earlier is not None:
            self._put(msgspec.structs.replace(earlier, refuses=True))

    def remove(self, tenant: str, service: str, instance_id: str, left_at: int | None = None) -> bool:
        """Removes an instance, which deregistered at `left_at` (None: it did not). False: it is not known."""
        key = (tenant, service)
        if self._known.get(key, {}).pop(instance_id, None) is None:
            return False
        self._online.pop(key, None)
        if left_at is not None:
            self._left[*key, instance_id] = left_at
            self._tell(*key, instance_id)
        return True

    def forget(self, before: int) -> None:
        """Removes those without a sign of life since `before` (SPEC section 12)."""
        gone = [one for each in self._known.values() for one in each.values() if one.seen < before]
        for instance in gone:
            self.remove(instance.tenant, instance.service, instance.instance_id)
        self._left = {place: left_at for place, left_at in self._left.items() if left_at >= before}

    def _tell(self, tenant: str, service: str, instance_id: str) -> None:
        for listener in tuple(self._listeners):
            listener(tenant, service, instance_id)

    def _add(self, instance: Instance) -> None:
        key = (instance.tenant, instance.service)
        self._left.pop((*key, instance.instance_id), None)
        known = self._known.setdefault(key, {})
        is_new = instance.instance_id not in known
        known[instance.instance_id] = instance
        if is_new:
            self._known[key] = dict(sorted(known.items()))
        self._online.pop(key, None)

    def _put(self, instance: Instance) -> None:
        """Replaces an instance in place, so that the order of ids stays."""
        key = (instance.tenant, instance.service)
        self._known[key][instance.instance_id] = instance
        self._online.pop(key, None)
