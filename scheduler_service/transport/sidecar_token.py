"""The token of daprd's API (`DAPR_API_TOKEN`): how a caller shows it, what to do where it is refused."""

from scheduler_service.domain.wire import Headers

SIDECAR_HEADER = "dapr-api-token"
REFUSED_REMEDY = "dapr.api_token (or DAPR_API_TOKEN) has to be the DAPR_API_TOKEN of daprd"


def show_token(token: str | None) -> Headers:
    """The header by which a caller shows it; none where there is no token: an empty one would be refused."""
    return () if token is None else ((SIDECAR_HEADER, token),)
