"""Completes a request when it is sent: with values of secrets, which stand nowhere else (SPEC section 14)."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.secret_places import Unfilled, mark_secrets
from scheduler_service.domain.wire import AtSend, Fault, FaultKind, OutboundRequest, Outcome
from scheduler_service.ports.sending import MayGo, NotSent, Secrets, Sender, always
from scheduler_service.security.secrets import SecretMasks, fill_request

Look = Callable[[], Awaitable[object]]


async def _look() -> None:
    """There are no others."""


class SendFailed(PunctualError):
    """The sender behind it raised an error; its words, without values of secrets."""


class CompletingSender:
    """`ports.sending.Sender` in front of another one, at no cost for requests to which nothing is added.

    Of those that may be redirected it marks what has a masked value: that goes to no other origin.
    What comes back of others has no value of a secret that their job names: the answer is stored, and may be
    shown and handed on. Where one is missing, `look` returns when what other processes have stored up to now
    is known, or nobody can say.
    """

    def __init__(self, *, sender: Sender, secrets: Secrets, masks: SecretMasks, look: Look = _look) -> None:
        self._send = sender.send
        self._secrets = secrets
        self._masks = masks
        self._look = look
        self.close = sender.close

    def send(self, request: OutboundRequest, may_go: MayGo = always) -> Coroutine[Any, Any, Outcome]:
        """The outcome; a Fault `template` where a secret is missing. Raises as the sender behind it."""
        at_send = request.at_send
        if at_send is not None:
            return self._complete(request, at_send, may_go)
        return self._send(self._mark(request) if request.redirects else request, may_go)

    def _mark(self, request: OutboundRequest) -> OutboundRequest:
        mask = self._masks.of_tenant(request.tenant)
        return request if mask is None else mark_secrets(request, mask.finds)

    async def _complete(self, request: OutboundRequest, at_send: AtSend, may_go: MayGo) -> Outcome:
        filled = fill_request(request, self._secrets)
        if isinstance(filled, Unfilled):
            await self._look()
            filled = fill_request(request, self._secrets)
        # Of what is sent now, whatever comes meanwhile.
        mask = self._masks.of_request(at_send, self._secrets.find)
        if isinstance(filled, Unfilled):
            return Fault(FaultKind.TEMPLATE, filled.message)
        try:
            return mask.outcome(await self._send(self._mark(filled) if filled.redirects else filled, may_go))
        except NotSent:
            raise
        except Exception as error:  # noqa: BLE001 - what is logged of it may have the address
            raise SendFailed(mask.text(repr(error))) from None
