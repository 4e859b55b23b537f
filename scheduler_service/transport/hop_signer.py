"""Signs the exchanges of a call just before they leave (SPEC section 14)."""

import asyncio
from collections.abc import Sequence

import msgspec

from scheduler_service.security.signing import CannotSign, RequestSigner, Signed
from scheduler_service.transport.addresses import TargetAddress
from scheduler_service.transport.errors import NotSigned
from scheduler_service.transport.request_bytes import Hop

SIGNED_AT_ONCE = 262_144
"""A body of so many bytes is digested in less than a millisecond; a longer one beside the loop."""


class HopSigner:
    """Signs hops that name a secret; `signer` None: there are none here."""

    def __init__(self, signer: RequestSigner | None) -> None:
        self._signer = signer

    def find(self, hop: Hop, tenant: str) -> Sequence[bytes]:
        """The keys that sign `hop`, for `sign`. Raises NotSigned."""
        if self._signer is None:
            raise NotSigned("sign names a secret, and there are none here.")
        try:
            return self._signer.find(tenant, hop.sign)
        except CannotSign as why:
            raise NotSigned(f"{why}.") from why

    async def sign(self, hop: Hop, keys: Sequence[bytes]) -> Hop:
        """`hop` as it leaves now; its signature is of this second. Raises NotSigned."""
        assert self._signer is not None, "keys were found"
        plain = Signed(hop.target.path, hop.headers, hop.body)
        try:
            if hop.body is None or len(hop.body) <= SIGNED_AT_ONCE:
                signed = self._signer.sign(keys, plain)
            else:
                loop = asyncio.get_running_loop()
                signed = await loop.run_in_executor(None, self._signer.sign, keys, plain)
        except CannotSign as why:
            raise NotSigned(f"{why}.") from why
        target = TargetAddress(hop.target.site, signed.path)
        replaced = {"target": target, "headers": signed.headers, "body": signed.body, "sign": ""}
        return msgspec.structs.replace(hop, **replaced)
