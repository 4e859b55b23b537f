"""Which instances are lost: offline so long that what they had in hand is ended (SPEC section 13)."""

import asyncio
from collections.abc import Callable

from scheduler_service.domain.effects import WatchInstance
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.domain.moments import DAY, rfc3339
from scheduler_service.domain.registered_services import LEFT, SILENT, UNKNOWN, InstancePlace, Loss
from scheduler_service.domain.wire import Token
from scheduler_service.ports.clock import Alarm, Timekeeper
from scheduler_service.ports.log import Log
from scheduler_service.services.instances import Instances

Watchers = dict["asyncio.Future[Loss]", Token]


class Losses:
    """Watches instances, and writes one line into the log for each that is lost, and one when it is back.

    It subscribes to `instances`, so it needs no further wiring. An instance is lost `lost_after` ms after it
    went offline or deregistered; `lost_after` 0: its work is never ended. `complete_at` is the steady moment
    by which every living instance has been heard of since the start of this process, or, in a cluster, since
    a time in which that was not possible: until then silence does not count, and an unknown one may live.
    Heartbeats cost nothing here: the next look is at the earliest moment at which one can be lost.
    """

    def __init__(
        self,
        *,
        instances: Instances,
        clock: Timekeeper,
        lost_after: int,
        complete_at: Callable[[], int],
        log: Log,
    ) -> None:
        self._instances = instances
        self._clock = clock
        self._lost_after = lost_after
        self._complete_at = complete_at
        self._log = log
        self._watchers: dict[InstancePlace, Watchers] = {}
        self._lost: dict[InstancePlace, int] = {}
        self._due = 0
        self._alarm: Alarm | None = None
        instances.subscribe(self._look_after)

    async def wait_for(self, watch: WatchInstance) -> Loss:
        """Returns when the instance is lost."""
        place = (watch.tenant, watch.service, watch.instance)
        watcher: asyncio.Future[Loss] = asyncio.get_running_loop().create_future()
        watchers = self._watchers.setdefault(place, {})
        watchers[watcher] = watch.token
        self._look_after(*place)
        try:
            return await watcher
        finally:
            watchers.pop(watcher, None)
            if not watchers and self._watchers.get(place) is watchers:
                del self._watchers[place]

    def close(self) -> None:
        """Looks no more."""
        self._instances.unsubscribe(self._look_after)
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _look_after(self, tenant: str, service: str, instance: str) -> None:
        """The instance has registered, left, or is watched from now on."""
        place = (tenant, service, instance)
        moment = self._moment_of(place)
        if moment > self._clock.now().steady:
            self._find(place)
        self._look_at(moment)

    def _look_at(self, moment: int) -> None:
        if self._alarm is not None:
            if self._due <= moment:
                return
            self._alarm.cancel()
        self._due = moment
        self._alarm = self._clock.call_after(max(moment - self._clock.now().steady, 0), self._look)

    def _look(self) -> None:
        self._alarm = None
        now = self._clock.now().steady
        known = {(one.tenant, one.service, one.instance_id) for one in self._instances.all()}
        self._lost = {place: at for place, at in self._lost.items() if place in known or at > now - DAY}
        for place in sorted(known | self._watchers.keys()):
            moment = self._moment_of(place)
            if moment <= now:
                self._lose(place)
            else:
                self._find(place)
                self._look_at(moment)

    def _moment_of(self, place: InstancePlace) -> int:
        """When the instance is lost, as far as is known now."""
        how, since = self._silence_of(place)
        if how == LEFT:
            return since + self._lost_after
        return max(since + self._instances.offline_after, self._complete_at()) + self._lost_after

    def _silence_of(self, place: InstancePlace) -> tuple[str, int]:
        """Since when (steady ms) nothing was heard of it, and how that came."""
        known, left_at = self._instances.get(*place), self._instances.left_at(*place)
        if known is not None:
            return SILENT, known.seen
        if left_at is not None:
            return LEFT, left_at
        return UNKNOWN, self._complete_at() - self._instances.offline_after

    def _lose(self, place: InstancePlace) -> None:
        watchers = self._watchers.pop(place, {}) if self._lost_after else {}
        loss = self._describe(place)
        if place not in self._lost:
            # An instance may have several steps of one execution in hand.
            executions = {(token.uid, token.execute_number) for token in watchers.values()}
            self._log(
                "instance_lost",
                service=write_job_key(place[0], place[1]),
                instance=place[2],
                executions=len(executions),
                since=rfc3339(loss.since),
                reason=loss.how,
            )
            self._lost[place] = self._clock.now().steady
        for watcher in watchers:
            if not watcher.done():
                watcher.set_result(loss)

    def _find(self, place: InstancePlace) -> None:
        """The instance is not lost, or not any more."""
        if self._lost.pop(place, None) is not None and self._instances.get(*place) is not None:
            self._log("instance_returned", service=write_job_key(place[0], place[1]), instance=place[2])

    def _describe(self, place: InstancePlace) -> Loss:
        now = self._clock.now()
        how, since = self._silence_of(place)
        return Loss(how, now.wall - (now.steady - since))
