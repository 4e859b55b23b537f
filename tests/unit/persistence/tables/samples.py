"""A service that says nothing of itself, and one that says all."""

from scheduler_service.domain.registered_services import RateLimit, Service

PLAIN = Service(tenant="default", name="billing", created_at=1, updated_at=1)

FULL = Service(
    tenant="default",
    name="shop",
    address="http://shop.test:81/base",
    route="hash",
    tags=("eu", "纯"),
    keeps=True,
    grace=5,
    rate_limit=RateLimit(10, 500),
    digest=b"\x00\xff",
    created_at=1,
    updated_at=2,
    removed_at=3,
    vouched=True,
)
