"""Signs requests by Standard Webhooks, or with MD5 for old peers (SPEC section 14).

CannotSign   a secret that a request names is missing, or cannot sign
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl, urlencode

import msgspec

from client_sdk.signing import HEADERS as OF_SIGNATURE
from client_sdk.signing import Signer, id_to_sign, read_named
from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.wire import Headers
from scheduler_service.ports.sending import Secrets

MD5 = "md5"
"""What `sign` names for the scheme of old peers, where settings enable it."""
RESTART_SECONDS = 2
"""A process that was killed may have signed in this second, with a time of the next one."""
PARAMETER = "sign"
FORM = "application/x-www-form-urlencoded"
_TYPE = "content-type"
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class CannotSign(PunctualError):
    """Why a request cannot be signed; the message has nothing of a secret."""


class Signed(msgspec.Struct, frozen=True, gc=False):
    """What is sent of a request that is signed."""

    path: str
    headers: Headers
    body: bytes | None


class RequestSigner:
    """Signs requests with the `secrets` of their tenants, at most two at a time.

    `md5_secret`: `md5` means the scheme of old peers with this secret; None: it is a name like any other.
    `clock` counts seconds since 1970.
    """

    def __init__(self, *, secrets: Secrets, md5_secret: str | None, clock: Callable[[], float]) -> None:
        self._secrets = secrets
        self._md5_secret = md5_secret
        self._signer = Signer(clock=clock, ahead=RESTART_SECONDS)

    def judge(self, tenant: str, name: str) -> str | None:
        """Why the secret `name` of a tenant cannot sign, or None."""
        try:
            self.find(tenant, name)
        except CannotSign as why:
            return str(why)
        return None

    def find(self, tenant: str, name: str) -> Sequence[bytes]:
        """The keys that sign under this name; none where `md5` does. Raises CannotSign."""
        if name == MD5 and self._md5_secret is not None:
            return ()
        try:
            return read_named(name, self._secrets.find(tenant, name))
        except ValueError as why:
            raise CannotSign(str(why)) from None

    def sign(self, keys: Sequence[bytes], request: Signed) -> Signed:
        """`request` as it is sent now, signed with what `find` has found. Raises CannotSign."""
        if not keys:
            return sign_md5(request, self._md5_secret or "")
        try:
            message_id = id_to_sign(request.headers)
        except ValueError as why:
            raise CannotSign(str(why)) from None
        own = tuple(pair for pair in request.headers if pair[0].lower() not in OF_SIGNATURE)
        signed = self._signer.sign(keys, message_id, request.body)
        return msgspec.structs.replace(request, headers=(*own, *signed))


def sign_md5(request: Signed, secret: str) -> Signed:
    """`request` with the parameter `sign`, as peers of the scheme of old expect it.

    What is signed are the parameters of the query and of the body, if that is a form or a JSON object: sorted
    by name, `key=value` joined by `&`, then the secret. A text is signed as it is, another value as its JSON,
    null not at all. The parameter goes into such a body, else into the query. Raises CannotSign where there
    is one already.
    """
    path, _, query = request.path.partition("?")
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    kind = next((value.lower() for name, value in request.headers if name.lower() == _TYPE), "")
    form, members = None, None
    if request.body and kind.startswith(FORM):
        form = parse_qsl(request.body.decode("utf-8", "replace"), keep_blank_values=True)
        parameters |= dict(form)
    elif request.body:
        members = _read_members(request.body)
        parameters |= _as_texts(members or {})
    if PARAMETER in parameters or (members and PARAMETER in members):
        raise CannotSign(f"the request has a parameter {PARAMETER!r} of its own; call it otherwise")
    joined = "&".join(f"{name}={parameters[name]}" for name in sorted(parameters))
    digest = hashlib.md5(f"{joined}{secret}".encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
    if form is not None:
        body = urlencode([*form, (PARAMETER, digest)]).encode()
        return msgspec.structs.replace(request, body=body)
    if members is not None:
        return msgspec.structs.replace(request, body=_add_member(members, digest))
    extended = f"{query}&{PARAMETER}={digest}" if query else f"{PARAMETER}={digest}"
    return msgspec.structs.replace(request, path=f"{path}?{extended}")


def _read_members(body: bytes) -> dict[str, msgspec.Raw] | None:
    """The members of a JSON object; None: the body is another one."""
    try:
        return _MEMBERS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _as_texts(members: dict[str, msgspec.Raw]) -> dict[str, str]:
    texts = {name: bytes(raw).strip() for name, raw in members.items()}
    return {
        name: json.loads(text) if text.startswith(b'"') else text.decode("utf-8", "replace")
        for name, text in texts.items()
        if text != b"null"
    }


def _add_member(members: dict[str, msgspec.Raw], digest: str) -> bytes:
    return msgspec.json.encode({**members, PARAMETER: digest})
