"""The async client of the scheduler's API."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Self

import httpx

from client_sdk.client.bulk import BulkWork
from client_sdk.client.calendars import Calendars
from client_sdk.client.call_retries import Patience
from client_sdk.client.connection import Connection
from client_sdk.client.events import EventStream, write_filters
from client_sdk.client.executions import Deliveries, Executions
from client_sdk.client.jobs import Jobs
from client_sdk.client.keys import Keys, Secrets
from client_sdk.client.queues import Queues
from client_sdk.client.results import SomeExecution
from client_sdk.client.scheduler import Scheduler
from client_sdk.client.services import Services
from client_sdk.models import answers

DEFAULT_URL = "http://127.0.0.1:8000"


class Client:
    """The API of a scheduler: `jobs`, `executions`, `bulk`, `deliveries`, `services`, `queues`, `keys`,
    `secrets`, `calendars`, `scheduler`.

    Use it in `async with`. Each event loop that uses it has connections of its own, which end with that loop.
    `key` is sent as given; it is not read from the environment: pass `os.environ.get("PUNCTUAL_KEY")` where
    that is intended. Over https the certificates of the system are trusted (`SSL_CERT_FILE` and
    `SSL_CERT_DIR` name others), and those in the file `ca`. A `transport` of your own belongs to one event
    loop. `service` owns the jobs that
    are created or updated: their `service:/path` goes there. `timeout` is that of one HTTP call in seconds.
    Calls are repeated as `patience` says if that is harmless: after a failed connection, 429 and 503 always
    (`Retry-After` is respected), after a lost answer if the call reads, replaces or carries an
    `Idempotency-Key`; triggers and creations always carry one.
    """

    connection: Connection
    """The HTTP connection, for the other parts of the SDK."""

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        key: str | None = None,
        service: str | None = None,
        timeout: float = 30.0,
        patience: Patience | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        ca: str | None = None,
    ) -> None:
        self.connection = Connection(
            url=url, key=key, timeout=timeout, patience=patience or Patience(), transport=transport, ca=ca
        )
        self.url = url
        self.jobs = Jobs(self.connection, service)
        self.executions = Executions(self.connection)
        self.bulk = BulkWork(self.connection)
        self.services = Services(self.connection)
        self.queues = Queues(self.connection)
        self.keys = Keys(self.connection)
        self.secrets = Secrets(self.connection)
        self.calendars = Calendars(self.connection)
        self.deliveries = Deliveries(self.connection)
        self.scheduler = Scheduler(self.connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections of this event loop."""
        await self.connection.close()

    def events(
        self,
        *,
        kinds: Sequence[str] = (),
        job_id: str | Sequence[str] | None = None,
        execution: SomeExecution | None = None,
        labels: Mapping[str, str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[answers.Event]:
        """What happens from now on, or after the event with the id `after`, without an end.

        Of jobs with `labels` alone, where they are given.

        After a cut connection it connects again and continues; what the service could not keep is told by an
        event whose `kind` is `gap`. Raises Problem for what the service refuses, and Unreachable where it
        is not there from the start.
        """
        query = write_filters(kinds, job_id, execution, labels)
        return EventStream(connection=self.connection, query=query, after=after).events()

    async def wait_for(
        self, execution: SomeExecution, *, timeout: float | None = None
    ) -> answers.ExecutionInFull:
        """`executions.wait_for`: the execution once it has ended. Raises WaitTimedOut."""
        return await self.executions.wait_for(execution, timeout=timeout)
