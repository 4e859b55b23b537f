"""Which certificates are trusted over TLS, and what to do about one that is not."""

import os
import ssl
from pathlib import Path

OTHER_NAME = frozenset({62, 64})
"""OpenSSL's codes for a certificate of another host or address."""
OUTSIDE_ITS_TIME = frozenset({9, 10})
NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})


def trusted(ca: str | Path | None = None) -> ssl.SSLContext:
    """Trusts the certificates of the system, and those in the PEM file `ca`.

    OpenSSL finds the system's; `SSL_CERT_FILE` and `SSL_CERT_DIR` name others instead. A system without any
    has those of certifi. Raises ValueError: `ca` cannot be read, or has no certificate.
    """
    context = ssl.create_default_context()
    if not _has_certificates():
        import certifi

        context.load_verify_locations(certifi.where())
    if ca is not None:
        check_file(ca)
        context.load_verify_locations(ca)
    return context


def check_file(ca: str | Path) -> None:
    """Raises ValueError: the file cannot be read, or has no certificate."""
    form = "give a file of certificates in PEM form (BEGIN CERTIFICATE)"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(ca)
    except ssl.SSLError:
        raise ValueError(f"ca {str(ca)!r} has no certificate that can be read: {form}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"ca {str(ca)!r} cannot be read ({reason}): {form}") from None


def explain_tls(error: BaseException | None, *, ca: str = "") -> str | None:
    """What went wrong with TLS, and the remedy; None: `error` has no cause of that kind.

    `ca` is how a caller names a file of certificates, as `--ca FILE`; empty: by the environment alone.
    """
    cause = _find_tls(error)
    if cause is None:
        return None
    if not isinstance(cause, ssl.SSLCertVerificationError):
        hint = "; does it speak http instead of https?" if cause.reason in NO_TLS else ""
        return f"no connection over TLS: {cause.reason or cause}{hint}"
    text = f"certificate verify failed: {cause.verify_message}"
    if cause.verify_code in OTHER_NAME:
        return f"{text}: use a name that its certificate has"
    if cause.verify_code in OUTSIDE_ITS_TIME:
        return f"{text}: renew its certificate, or set this machine's clock"
    remedy = f"give the file of its authority's certificate (PEM) by {ca and f'{ca} or '}SSL_CERT_FILE"
    return f"{text}: for a private authority, {remedy}{_name_missing()}"


def _has_certificates() -> bool:
    """Whether OpenSSL finds certificates by itself; those of a folder are read when they are needed."""
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile) or (bool(paths.capath) and any(Path(paths.capath).iterdir()))


def _name_missing() -> str:
    """OpenSSL reports no error for files and folders that are not there."""
    missing = [
        f"{name}={path!r} cannot be read"
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")
        if (path := os.environ.get(name)) and not os.access(path, os.R_OK)
    ]
    return f" ({', '.join(missing)})" if missing else ""


def _find_tls(error: BaseException | None) -> ssl.SSLError | None:
    """The failure of TLS among the causes; layers above it wrap it, some of them in groups."""
    if error is None or isinstance(error, ssl.SSLError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((found for one in error.exceptions if (found := _find_tls(one))), None)
    return _find_tls(error.__cause__ or error.__context__)
