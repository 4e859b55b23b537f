"""What is kept of the records of a turn: masked, cut, thinned or dropped (SPEC sections 12 and 14)."""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec.structs import replace

from scheduler_service.domain.execution import DeliveryState, ExecutionState
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.records import (
    AttemptEnded,
    AttemptStarted,
    CheckEnded,
    DeliveryRecord,
    DeliveryTry,
    Exchange,
    ExecutionRecord,
    FeedbackSeen,
    LeaseChanged,
    Noted,
    Record,
    ResultKept,
    StepEnded,
    hide_in_answer,
    without_params,
)
from scheduler_service.domain.token_masks import MARK, tokens_in
from scheduler_service.domain.wire import Headers
from scheduler_service.language.json_values import LARGE_BYTES
from scheduler_service.language.value_masks import NO_MASK, SecretMask
from scheduler_service.security.name_masks import Concealment, hide_query
from scheduler_service.security.secrets import SecretMasks

MASKED_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"})
BODY_BYTES = 4_096
MAX_NAMES = 1_024
_NAME, _VALUE = itemgetter(0), itemgetter(1)


class _Kept(NamedTuple):
    body: bytes | None
    is_masked: bool = False
    is_cut: bool = False


class Masking:
    """Masks headers, members, URL parameters and feedback tokens, cuts bodies, and drops detail.

    `headers` are masked in addition to the five of SPEC section 14; `members` are JSON members at any depth
    and URL parameters. Names are case-insensitive. Bodies keep at most `body_bytes`. `detail` is the setting
    `history.detail`, which a job's own `historyDetail` overrides:

    - `all`: everything is kept;
    - `failures`: records of success keep times and status, but neither headers nor bodies;
    - `none`: only executions, their results, firings and deliveries are kept, deliveries without headers,
      bodies and the query of their address.

    Trigger parameters are masked, cut and dropped like bodies. `secrets` hides the values of secrets in all
    that is kept; None: there are none.
    """

    def __init__(
        self,
        *,
        headers: Iterable[str] = (),
        members: Iterable[str] = (),
        body_bytes: int = BODY_BYTES,
        detail: str = "all",
        secrets: SecretMasks | None = None,
    ) -> None:
        self._headers = MASKED_HEADERS | {name.lower() for name in headers}
        self._conceal = Concealment(headers=self._headers, members=members)
        self._body_bytes = body_bytes
        self._detail = detail
        self._secrets = secrets
        self._names: dict[str, bool] = {}
        self._plain_names: set[str] = set()  # those of `_names` that are not secret
        # The records that may have secrets. A table, since it is fastest: every turn redacts records.
        self._kinds: dict[type[Record], Callable[[Any, SecretMask], Record]] = {
            StepEnded: self._redact_step,
            CheckEnded: self._redact_step,
            ExecutionRecord: self._redact_execution,
            FeedbackSeen: self._redact_feedback,
            DeliveryRecord: self._redact_delivery,
            AttemptEnded: self._redact_end,
            Noted: self._redact_note,
            ResultKept: self._redact_result,
        }

    @property
    def reads_bodies(self) -> bool:
        """Whether much of a large body is searched: all of it for members, or much is kept of it."""
        return self._conceal.needle is not None or self._body_bytes > LARGE_BYTES

    def redact_all(
        self, records: Sequence[Record], *, detail: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> tuple[Record, ...]:
        """The records of a turn as written; `detail` is the job's `historyDetail`, None: the setting."""
        mask = None if self._secrets is None else self._secrets.of_tenant(tenant)
        if mask is not None:
            # Before anything else: a part of a value that is hidden, as the user in a URL, would keep it from
            # being found. And behind all: bodies that were cut, or written anew.
            whole = [mask.before_cut(record, self._body_bytes) for record in records]
            return tuple(map(mask.record, self._redact_some(whole, detail, mask)))
        if (detail or self._detail) != "all":
            return self._redact_some(records, detail, NO_MASK)
        kinds, found = self._kinds, []
        for one in records:  # runs in every turn: no generator, no comprehension, no needless call
            redact = kinds.get(type(one))
            found.append(one if redact is None else redact(one, NO_MASK))
        return tuple(found)

    def redact(
        self, record: Record, *, detail: str | None = None, mask: SecretMask = NO_MASK
    ) -> Record | None:
        """The record to write, itself where nothing is secret; None: it is dropped.

        Of the values of `mask`, those are hidden on which a cut falls.
        """
        match detail or self._detail:
            case "none":
                return self._strip(record, mask)
            case "failures":
                return self._redact(_thin(record), mask)
            case _:
                return self._redact(record, mask)

    def _redact_some(
        self, records: Sequence[Record], detail: str | None, mask: SecretMask
    ) -> tuple[Record, ...]:
        found = [self.redact(record, detail=detail, mask=mask) for record in records]
        return tuple([record for record in found if record is not None])

    def _strip(self, record: Record, mask: SecretMask) -> Record | None:
        match record:
            case StepEnded() | CheckEnded() | FeedbackSeen() | Noted() | AttemptStarted() | AttemptEnded():
                return None
            case LeaseChanged():
                return None
            case DeliveryRecord():
                return self._redact(replace(record, url=hide_query(record.url), exchange=None), mask)
            case ExecutionRecord():
                return without_params(record)
            case _:
                return self._redact(record, mask)

    def _redact(self, record: Record, mask: SecretMask) -> Record:
        redact = self._kinds.get(type(record))
        return record if redact is None else redact(record, mask)

    def _redact_step(self, record: StepEnded | CheckEnded, mask: SecretMask) -> Record:
        exchange = record.exchange
        if self._is_plain(exchange):
            return record
        kept = self._redact_exchange(exchange, mask)
        return record if kept is exchange else replace(record, exchange=kept)

    def _redact_execution(self, record: ExecutionRecord, mask: SecretMask) -> ExecutionRecord:
        params = record.params
        if params is None or params == b"{}":
            return record
        kept = self._keep(params, mask).body
        return record if kept is params else replace(record, params=kept, params_complete=False)

    def _redact_end(self, record: AttemptEnded, _: SecretMask) -> AttemptEnded:
        message = record.message and self._conceal.text(record.message)
        return record if message is record.message else replace(record, message=message)

    def _redact_note(self, record: Noted, _: SecretMask) -> Noted:
        text = self._conceal.text(record.text)
        return record if text is record.text else replace(record, text=text)

    def _redact_feedback(self, record: FeedbackSeen, mask: SecretMask) -> FeedbackSeen:
        kept = self._keep(record.body, mask)
        if kept.body is record.body:
            return record
        return replace(record, body=kept.body, truncated=record.truncated or kept.is_cut)

    def _redact_result(self, record: ResultKept, mask: SecretMask) -> ResultKept:
        """Masked as each body, and not cut."""
        masked = self._conceal.body(mask.body(record.body))
        return record if masked == record.body else replace(record, body=masked, masked=True)

    def _redact_delivery(self, record: DeliveryRecord, mask: SecretMask) -> DeliveryRecord:
        url = self._conceal.url(record.url)
        exchange = None if record.exchange is None else self._redact_exchange(record.exchange, mask)
        tries = tuple(map(self._redact_try, record.tries))
        if url is record.url and exchange is record.exchange and tries == record.tries:
            return record
        return replace(record, url=url, exchange=exchange, tries=tries)

    def _redact_try(self, one: DeliveryTry) -> DeliveryTry:
        fault = one.fault and self._conceal.text(one.fault)
        return one if fault is one.fault else replace(one, fault=fault)

    def _redact_exchange(self, given: Exchange, mask: SecretMask) -> Exchange:
        conceal, exchange = self._conceal, self._hide_given(given)
        before = exchange.url, exchange.fault, exchange.request_headers, exchange.response_headers
        url, fault, sent, answered = after = (
            conceal.url(exchange.url),
            exchange.fault and conceal.text(exchange.fault),
            self._mask_headers(exchange.request_headers),
            self._mask_headers(exchange.response_headers),
        )
        bodies = exchange.request_body, exchange.response_body
        request, response = [self._keep(body, mask) for body in bodies]
        is_whole = request.body is exchange.request_body and response.body is exchange.response_body
        if after == before and is_whole:
            return exchange
        return replace(
            exchange,
            url=url,
            fault=fault,
            request_headers=sent,
            request_body=request.body,
            request_truncated=exchange.request_truncated or request.is_cut,
            response_headers=answered,
            response_body=response.body,
            response_truncated=exchange.response_truncated or response.is_cut,
            redacted=exchange.redacted or after != before or request.is_masked or response.is_masked,
            response_redacted=exchange.response_redacted or response.is_masked,
        )

    def _keep(self, body: bytes | None, mask: SecretMask) -> _Kept:
        """Masks and cuts a body; one with the name of a member is masked first: a cut one is no JSON."""
        if not body:
            return _Kept(body)
        most, conceal = self._body_bytes, self._conceal
        if len(body) > most and not conceal.may_have_member(body):
            begin = cut(mask.hide_at(body, most), most)
            kept = conceal.tokens(begin)
            return _Kept(kept, is_masked=kept is not begin, is_cut=True)
        masked = conceal.body(body)
        kept = cut(mask.hide_at(masked, most), most) if len(masked) > most else masked
        return _Kept(kept, is_masked=masked is not body, is_cut=kept is not masked)

    def _hide_given(self, exchange: Exchange) -> Exchange:
        """The tokens that the target was given are not in its answer, which may have them in any form."""
        sent = "\n".join((exchange.url, *map(_VALUE, exchange.request_headers)))
        return hide_in_answer(
            exchange, tokens_in(sent.encode("utf-8", "replace"), exchange.request_body or b"")
        )

    def _is_plain(self, exchange: Exchange) -> bool:
        """Whether there is surely nothing to mask or cut, as in most: so all values are searched as one text.

        Without a function for each part of it: each step of an execution is looked at.
        """
        url, sent, answered = exchange.url, exchange.request_headers, exchange.response_headers
        names = self._plain_names
        if exchange.fault is not None or "?" in url or "#" in url or ";" in url:
            return False
        if not (names.issuperset(map(_NAME, sent)) and names.issuperset(map(_NAME, answered))):
            return False
        text = "\n".join((url, *map(_VALUE, sent), *map(_VALUE, answered)))
        lower = text.lower()
        if "@" in text or "token" in lower or "hook" in lower or "/bot" in lower:
            return False
        request, response = exchange.request_body or b"", exchange.response_body or b""
        if len(request) + len(response) > self._body_bytes:
            return False
        bodies, needle = b"%b\n%b" % (request, response), self._conceal.needle
        return bodies.lower().find(b"token") < 0 and (needle is None or not needle.search(bodies))

    def _mask_headers(self, headers: Headers) -> Headers:
        known = self._names
        for name, value in headers:
            secret = known[name] if name in known else self._is_secret(name)
            if secret or "@" in value or "token" in value.lower():  # no further call for each value
                return self._mask_values(headers)
        return headers

    def _mask_values(self, headers: Headers) -> Headers:
        # A function of its own: a comprehension over `self` slows the function that contains it.
        return tuple([(name, self._mask_value(name, value)) for name, value in headers])

    def _mask_value(self, name: str, value: str) -> str:
        return MARK if self._is_secret(name) else self._conceal.text(value)

    def _is_secret(self, name: str) -> bool:
        """Cached by spelling: the same few names occur in every exchange."""
        known = self._names.get(name)
        if known is None:
            known = name.lower() in self._headers
            if len(self._names) < MAX_NAMES:
                self._names[name] = known
                if not known:
                    self._plain_names.add(name)
        return known


def cut(body: bytes, limit: int) -> bytes:
    """`body` itself, or its first `limit` bytes without a broken UTF-8 character at their end."""
    if len(body) <= limit:
        return body
    end = limit
    # A character has at most three bytes after its first one.
    while end > max(0, limit - 3) and body[end] & 0xC0 == 0x80:
        end -= 1
    return body[:end] if body[end] & 0xC0 != 0x80 else body[:limit]


def _thin(record: Record) -> Record:
    """A record of success without headers and bodies; any other record itself."""
    match record:
        case StepEnded(error=None) | CheckEnded(error=None):
            return replace(record, exchange=_empty(record.exchange))
        case DeliveryRecord(state=DeliveryState.DELIVERED, exchange=Exchange() as exchange):
            return replace(record, exchange=_empty(exchange))
        case ExecutionRecord(state=ExecutionState.SUCCEEDED):
            return without_params(record)
        case _:
            return record


def _empty(exchange: Exchange) -> Exchange:
    return replace(
        exchange,
        request_headers=(),
        request_body=None,
        response_headers=(),
        response_body=None,
        redacted=True,
        response_redacted=exchange.response_redacted or bool(exchange.response_body),
    )
