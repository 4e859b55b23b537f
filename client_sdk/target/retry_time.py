"""How long work from a queue may take so that its retries fit (SPEC section 13)."""

from client_sdk.models.fields import LARGEST
from client_sdk.models.step import RequestStep

LEASE_SECONDS, RETRIES, DELAY_SECONDS = 60.0, 3, 10.0
"""The defaults of `leaseSeconds`, `maxUnexpectedRetries` and `unexpectedRetryDelaySeconds`."""
USUAL_SECONDS = 60.0
"""The default of `timeoutSeconds`."""


def time_for_retries(step: RequestStep) -> dict[str, float]:
    """The `timeoutSeconds` in which a `queue://` step can lose as many leases as it may, and still end.

    A lease for each claim and the delays between them, with the defaults 270 s; empty where the usual limit
    is enough, or where nothing is given out again.
    """
    lease = LEASE_SECONDS if step.lease_seconds is None else step.lease_seconds
    delay = step.unexpected_retry_delay_seconds
    delay = DELAY_SECONDS if delay is None else delay
    retries = RETRIES if step.max_unexpected_retries is None else step.max_unexpected_retries
    needed = min(lease * (1 + retries) + delay * retries, LARGEST)
    return {"timeoutSeconds": needed} if retries and needed > USUAL_SECONDS else {}
