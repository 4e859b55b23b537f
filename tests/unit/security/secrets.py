"""Records with secrets, and what masks them."""

from typing import Any

from scheduler_service.domain.records import Exchange, StepEnded
from scheduler_service.security.history_masking import Masking

MASKING = Masking(headers=["X-Tenant-Secret"], members=["password", "apiKey"])
SECRET = "s3cr3t"


def step(error: str | None = None, **changes: Any) -> StepEnded:
    values: dict[str, Any] = {"method": "POST", "url": "http://127.0.0.1/a", "status": 200, **changes}
    return StepEnded(1, 1, 0, 0, Exchange(**values), error=error)


def masked_exchange(masking: Masking = MASKING, **changes: Any) -> Exchange:
    found = masking.redact(step(**changes))
    assert isinstance(found, StepEnded)
    return found.exchange


def masked_body(body: bytes, masking: Masking = MASKING) -> bytes:
    found = masked_exchange(masking, response_body=body).response_body
    assert found is not None
    return found
