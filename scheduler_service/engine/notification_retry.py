"""What follows a try of a delivery: delivered, tried again or given up (SPEC section 7, Delivery)."""

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import DeliveryState
from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.domain.records import DeliveryRecord, DeliveryTry, exchange_of, hide_token
from scheduler_service.domain.secret_places import hide_places
from scheduler_service.domain.token_masks import MARK
from scheduler_service.domain.tracing import DELIVERY, span_of, trace_of
from scheduler_service.domain.wire import Answer, OutboundRequest, Outcome
from scheduler_service.engine.answer_rules import UNSUCCESSFUL, code_in, find_unmet, rule_of
from scheduler_service.engine.target_reports import message_of

RETRIES = 3
INTERVAL = 20 * SECOND
TRIES_KEPT = 20


def after_try(
    delivery: Delivery,
    outcome: Outcome,
    now: Now,
    *,
    retries: int = RETRIES,
    interval: int = INTERVAL,
    refusal: str | None = None,
) -> Delivery:
    """The delivery after one more try: delivered, due again at `due`, or given up.

    Only a 2xx counts as delivered, and none whose body says that the message was not taken: by the rule of
    the entry, or by the `refusal`. Given up, a guaranteed delivery stays in the outbox, another has failed.
    """
    tries = delivery.tries + 1
    tried = _describe_try(delivery, outcome, now, refusal)
    state = _state(delivery, tried, tries, retries)
    return msgspec.structs.replace(
        delivery,
        tries=tries,
        state=state,
        due=now.steady + interval if state == DeliveryState.PENDING else None,
        past=(*delivery.past, tried)[-TRIES_KEPT:],
    )


def is_guaranteed(delivery: Delivery) -> bool:
    """Whether it is tried until it is delivered or dismissed; others may be durable for want of room."""
    return delivery.outbox


def may_be_superseded(delivery: Delivery) -> bool:
    """Whether it may be dropped if too many of its job are pending: not final, and in memory alone."""
    return not delivery.final and not delivery.durable and not delivery.outbox


def record_of(delivery: Delivery, outcome: Outcome | None, now: Now, holder: str = "") -> DeliveryRecord:
    """The record of the delivery for the history; `outcome` is that of the try that just ended, if any.

    `holder` is the process that has it in memory.
    """
    is_planned = delivery.due is not None and delivery.state == DeliveryState.PENDING
    exchange, url, token = None, hide_places(delivery.request).url, delivery.token
    if outcome is not None:
        exchange = exchange_of(delivery.request, outcome, now.wall - outcome.elapsed)
    if token:
        url, exchange = url.replace(token, MARK), exchange and hide_token(exchange, token)
    return DeliveryRecord(
        delivery_id=delivery.delivery_id,
        execute_number=delivery.execute_number,
        request_counts=delivery.request_counts,
        event=delivery.event,
        url=url,
        state=delivery.state,
        name=delivery.name,
        created_at=delivery.created_at,
        tries=delivery.past,
        exchange=exchange,
        next_try_at=now.wall + (delivery.due or 0) - now.steady if is_planned else None,
        tried=delivery.tries,
        trace=delivery.trace,
        holder=holder if delivery.state == DeliveryState.PENDING and not delivery.durable else "",
    )


def request_of_try(delivery: Delivery) -> OutboundRequest:
    """The request of the next try: the same bytes, in a span of its own (`tracing`)."""
    request = delivery.request
    if not delivery.tries or not request.span:
        return request
    own = trace_of(delivery.uid, delivery.execute_number)
    span = span_of(own, delivery.request_counts, (DELIVERY, delivery.ordinal, delivery.tries))
    return msgspec.structs.replace(request, span=span + request.span[len(span) :])


def _state(delivery: Delivery, tried: DeliveryTry, tries: int, retries: int) -> DeliveryState:
    if tried.status is not None and 200 <= tried.status < 300 and tried.fault is None:
        return DeliveryState.DELIVERED
    if delivery.state == DeliveryState.PENDING and tries <= retries:
        return DeliveryState.PENDING
    return DeliveryState.OUTBOX if is_guaranteed(delivery) else DeliveryState.FAILED


def _describe_try(delivery: Delivery, outcome: Outcome, now: Now, refusal: str | None) -> DeliveryTry:
    at = now.wall - outcome.elapsed
    if isinstance(outcome, Answer):
        if refusal is None and delivery.rule:
            refusal = _find_fault(delivery, outcome)
        return DeliveryTry(at, outcome.status, refusal, outcome.elapsed)
    return DeliveryTry(at, None, outcome.kind.value, outcome.elapsed)


def _find_fault(delivery: Delivery, answer: Answer) -> str | None:
    """Code and message of an answer that is none by its body, or whose body says why its status fails."""
    rule, is_success = rule_of(delivery.rule), 200 <= answer.status < 300
    unmet = find_unmet(rule, answer) if is_success else f"the receiver answered {answer.status}"
    if unmet is None:
        return None
    code = code_in(rule, answer, UNSUCCESSFUL if is_success else str(answer.status))
    return f"{code}: {message_of(rule, answer, delivery.token, unmet)}"
