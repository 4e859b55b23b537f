"""A request and what came of it, as the history keeps them: of a step, a check or a delivery."""

from scheduler_service.domain.records import Exchange
from scheduler_service.domain.wire import Fault, OutboundRequest, Outcome


def exchange_of(request: OutboundRequest, outcome: Outcome, sent_at: int) -> Exchange:
    """The exchange; `sent_at` in wall ms."""
    if type(outcome) is Fault:
        return Exchange(
            method=request.method,
            url=request.url,
            request_headers=request.headers,
            request_body=request.body,
            fault=outcome.message,
            sent_at=sent_at,
            duration=outcome.elapsed,
        )
    return Exchange(
        method=request.method,
        url=request.url,
        request_headers=request.headers,
        request_body=request.body,
        status=outcome.status,
        response_headers=outcome.headers,
        response_body=outcome.body,
        response_truncated=outcome.truncated,
        sent_at=sent_at,
        duration=outcome.elapsed,
    )
