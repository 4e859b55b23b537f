"""One event of an execution that its `notification` entries may match."""

import msgspec


class NotificationEvent(msgspec.Struct, frozen=True):
    """One event: `key` is compared with `stateEquals`, `response` becomes the member of the body.

    `timed_out`: a timeout, even if it counts as 500.
    """

    key: str
    http_status: str
    response: dict[str, object]
    timed_out: bool = False
