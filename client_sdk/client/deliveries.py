"""`client.deliveries`: notifications, on their way and in the outbox (SPEC sections 7, 10)."""

from collections.abc import AsyncIterator

from client_sdk.client.connection import PAGE, Connection, iterate, parse
from client_sdk.client.jobs import new_key
from client_sdk.client.paths import quote_name
from client_sdk.models import answers

SomeDelivery = str | answers.DeliveryLine


class Deliveries:
    """The notifications of one scheduler. Every method raises SdkError; `Absent` if it does not exist."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(
        self,
        *,
        job_id: str | None = None,
        state: str | None = None,
        event: str | None = None,
        page: int = PAGE,
    ) -> AsyncIterator[answers.DeliveryLine]:
        """All matching notifications, the newest first, a page at a time."""
        query = {"jobId": job_id, "state": state, "event": event}
        return iterate(self._connection, answers.DeliveryLine, "/deliveries", page=page, **query)

    async def counts(
        self, *, job_id: str | None = None, state: str | None = None, event: str | None = None
    ) -> answers.DeliveryCounts:
        """How many match, by state."""
        query = {"jobId": job_id, "state": state, "event": event}
        return await self._connection.read(answers.DeliveryCounts, "/counts/deliveries", **query)

    async def resend(self, delivery: SomeDelivery) -> answers.DeliveryRef:
        """Tries it again now. Raises Conflict if it is not pending any more."""
        return await self._post(delivery, "resend")

    async def dismiss(self, delivery: SomeDelivery) -> answers.DeliveryRef:
        """Gives it up: it is not sent again. Raises Conflict if it is not pending any more."""
        return await self._post(delivery, "dismiss")

    async def _post(self, delivery: SomeDelivery, what: str) -> answers.DeliveryRef:
        name = delivery.delivery_id if isinstance(delivery, answers.DeliveryLine) else delivery
        path = f"/deliveries/{quote_name('delivery', name)}/{what}"
        headers = {"Idempotency-Key": new_key()}
        envelope = await self._connection.send("POST", path, body={}, headers=headers)
        return parse(answers.DeliveryRef, envelope.data)
