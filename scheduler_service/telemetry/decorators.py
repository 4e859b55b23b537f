"""What stands in front of the ports of a process: the place of metrics and traces."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from scheduler_service.domain.wire import Outcome
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.history import History
from scheduler_service.ports.sending import Sender


def _plain_history(history: History) -> History:
    return history


def _plain_sender(sender: Sender) -> Sender:
    return sender


class ObserveJob(Protocol):
    """Sees what each durable turn has made of a job's entry, at some nanoseconds while nobody listens."""

    def __call__(self, before: CatalogueEntry | None, after: CatalogueEntry) -> None:
        """`before` None: there was no such job. Never raises, never waits."""


def observe_no_job(before: CatalogueEntry | None, after: CatalogueEntry) -> None:
    """Looks at nothing."""


class ObserveCall(Protocol):
    """Sees how each request that left the process ended."""

    def __call__(self, outcome: Outcome) -> None:
        """Never raises, never waits."""


class PortDecorators(msgspec.Struct, frozen=True, kw_only=True):
    """Wraps each port with an implementation of the same port; by default with none, at no cost.

    The history gets every record, the lateness of a firing included; the sender makes every call. A
    decorator returns what it gets from the port behind it, never raises of its own and never waits.
    `observe_job` sees what durable turns make of jobs, `observe_call` the outcome of each call.
    """

    history: Callable[[History], History] = _plain_history
    sender: Callable[[Sender], Sender] = _plain_sender
    observe_job: ObserveJob = observe_no_job
    observe_call: ObserveCall | None = None


NO_DECORATORS = PortDecorators()
