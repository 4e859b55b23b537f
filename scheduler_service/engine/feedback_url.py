"""The URL at which a target reports on one attempt, and its token (SPEC section 5)."""

import hashlib
import hmac
from urllib.parse import quote

from scheduler_service.domain.document import Head
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.engine.program import Program


def feedback_url(base: str, program: Program, head: Head, request_counts: int) -> str:
    """The URL at which the target reports on one attempt."""
    token = feedback_token(head.key, head.uid, request_counts)
    url = f"{base.rstrip('/')}/jobs/{quote(program.job_id, safe=':')}/feedback/{request_counts}?token={token}"
    tenant = program.surroundings.tenant
    return url if tenant == DEFAULT_TENANT else f"{url}&tenant={tenant}"


def feedback_token(key: bytes, uid: str, request_counts: int) -> str:
    """The token of the feedback URL of one attempt: an HMAC over uid and `requestCounts` (SPEC section 5)."""
    return hmac.new(key, f"{uid}:{request_counts}".encode(), hashlib.sha256).hexdigest()


def token_in(request: OutboundRequest, head: Head, request_counts: int) -> str:
    """The feedback token of the attempt, if the request has it; empty: it has not."""
    token = feedback_token(head.key, head.uid, request_counts)
    is_in = token in request.url or any(token in value for _, value in request.headers)
    return token if is_in or token.encode() in (request.body or b"") else ""
