"""Where a Redis database is: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, or `rediss://` over TLS."""

from urllib.parse import unquote, urlsplit

import msgspec

DEFAULT_PORT = 6379
FORM = "write redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// for TLS"


class Address(msgspec.Struct, frozen=True):
    """A database of a server. `str` shows no secret."""

    host: str
    port: int
    database: int
    is_encrypted: bool
    user: str | None = None
    password: str | None = None

    def __str__(self) -> str:
        scheme = "rediss" if self.is_encrypted else "redis"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}/{self.database}"

    def __repr__(self) -> str:
        return f"Address({self})"


def read_address(url: str) -> Address:
    """The address that `url` names. Raises ValueError with the form, without the url."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"this is not the address of a Redis database; {FORM}") from None
    database = parts.path.removeprefix("/") or "0"
    is_plain = not parts.query and not parts.fragment and database.isascii() and database.isdigit()
    if parts.scheme not in ("redis", "rediss") or not host or not is_plain or port == 0:
        raise ValueError(f"this is not the address of a Redis database; {FORM}")
    return Address(
        host=host,
        port=port or DEFAULT_PORT,
        database=int(database),
        is_encrypted=parts.scheme == "rediss",
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
    )
