"""Certificates with which calls show who they are, by the origin of their target (SPEC section 9)."""

import os
import ssl
from collections.abc import Callable, Sequence

import msgspec

from scheduler_service.ports.log import Log
from scheduler_service.transport.addresses import read_url
from scheduler_service.transport.errors import PolicyError, RefusedTarget

Trust = Callable[[], ssl.SSLContext]
Stamp = tuple[tuple[int, int, int], ...]


class ClientCertificate(msgspec.Struct, frozen=True):
    """The files (PEM) of the certificate for one origin, `https://host[:port]`, and of its key.

    `ca`: the authorities that are trusted there, and no others; None: those that are trusted everywhere.
    """

    origin: str
    cert: str
    key: str
    ca: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """All of them."""
        return (self.cert, self.key) if self.ca is None else (self.cert, self.key, self.ca)


class ClientCertificates:
    """The TLS contexts of the origins that have a certificate; their files are looked at for each connection.

    Changed files are read again. Where they cannot be, as one of them is not replaced yet, the certificate
    that was read last goes on, with a line in the log. Raises PolicyError for what cannot be read at the
    start, and for an origin that is none or stands twice.
    """

    def __init__(self, certificates: Sequence[ClientCertificate], *, trust: Trust, log: Log) -> None:
        self._trust, self._log = trust, log
        self._by_origin: dict[str, ClientCertificate] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._stamps: dict[str, Stamp] = {}
        self._told: dict[str, Stamp] = {}
        for one in certificates:
            origin = read_origin(one.origin)
            if origin in self._by_origin:
                raise PolicyError(f"{origin} has two certificates: leave one out.")
            self._by_origin[origin] = one
            try:
                self._stamps[origin], self._contexts[origin] = _stamp(one), self._load(one)
            except (OSError, ValueError) as error:
                raise PolicyError(_describe(one, error)) from None

    def find(self, origin: str) -> ssl.SSLContext | None:
        """The context for connections to `origin`; None: it has no certificate."""
        certificate = self._by_origin.get(origin)
        if certificate is None:
            return None
        stamp = _stamp(certificate)
        if stamp != self._stamps[origin]:
            try:
                self._contexts[origin], self._stamps[origin] = self._load(certificate), stamp
            except (OSError, ValueError) as error:
                self._tell(origin, stamp, error)
        return self._contexts[origin]

    def _tell(self, origin: str, stamp: Stamp, error: OSError | ValueError) -> None:
        """One line for each state of the files."""
        if self._told.get(origin) != stamp:
            self._told[origin] = stamp
            self._log("certificate_not_read", origin=origin, error=_describe(self._by_origin[origin], error))

    def _load(self, certificate: ClientCertificate) -> ssl.SSLContext:
        ca = certificate.ca
        context = self._trust() if ca is None else ssl.create_default_context(cafile=ca)
        # A key with a passphrase is refused: OpenSSL would ask the terminal for it.
        context.load_cert_chain(certificate.cert, certificate.key, password=lambda: "")
        return context


def read_origin(text: str) -> str:
    """`text` as the pool names origins. Raises PolicyError."""
    try:
        target = read_url(text)
    except RefusedTarget as error:
        raise PolicyError(f"{text[:80]!r} is not an origin: {error}") from None
    if target.site.scheme != "https" or target.path != "/" or "?" in text or "#" in text:
        raise PolicyError(f"{text[:80]!r} is not an origin of TLS: write https://host or https://host:port.")
    return target.site.origin


def _stamp(certificate: ClientCertificate) -> Stamp:
    """What changes with the files; of one that is missing zeros."""
    found = []
    for path in certificate.files:
        try:
            status = os.stat(path)  # noqa: PTH116 - no object for each connection
        except OSError:
            found.append((0, 0, 0))
        else:
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


def _describe(certificate: ClientCertificate, error: OSError | ValueError) -> str:
    """Names the file that is missing or may not be read: the error of the library does not."""
    reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    unread = next((path for path in certificate.files if not os.access(path, os.R_OK)), None)
    reason = reason if unread is None else f"{unread}: {reason}"
    origin = read_origin(certificate.origin)
    return (
        f"the certificate for {origin} cannot be read ({reason}): cert and key are files in PEM form, which "
        "belong together, the key without a passphrase."
    )
