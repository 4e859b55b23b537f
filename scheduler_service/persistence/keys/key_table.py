"""Keys of callers in SQL: `ports.keys.KeyTable` in the history's database."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.access_keys import AccessKey, Role
from scheduler_service.persistence.sql.database import MarkedTable, read_unopened
from scheduler_service.persistence.sql.expressions import text
from scheduler_service.ports.keys import Mark

_LABELS = msgspec.json.Decoder(tuple[str, ...])


metadata = sa.MetaData()

# Members of `domain.access_keys.AccessKey`. No row is removed: each change adds one to the sum of `version`,
# or to the count of rows, by which processes see that there is something new.
access_keys = sa.Table(
    "access_keys",
    metadata,
    sa.Column("key_id", text(32), primary_key=True),
    sa.Column("tenant", text(128), nullable=False),
    sa.Column("name", text(128), nullable=False),
    sa.Column("role", text(16), nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("created_by", text(260), nullable=False),
    sa.Column("service", text(128)),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("earlier", sa.LargeBinary, nullable=False),
    sa.Column("earlier_until", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger),
    sa.Column("last_used_at", sa.BigInteger),
    sa.Column("revoked_at", sa.BigInteger),
    sa.Column("rotations", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)
_MARK = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(access_keys.c.version), 0)).select_from(
    access_keys
)
_ALL = sa.select(access_keys).order_by(access_keys.c.created_at, access_keys.c.key_id)
_LAST = access_keys.c.last_used_at
_NOTE_USE = (
    sa.update(access_keys)
    .where(
        access_keys.c.key_id == sa.bindparam("used_id"),
        sa.or_(_LAST.is_(None), sa.bindparam("used_at") > _LAST),
    )
    .values(last_used_at=sa.bindparam("used_at"))
)


class SqlKeyTable(MarkedTable):
    """ports.KeyTable over the history's database, in a thread of its own."""

    name, marking = "keys", _MARK

    async def keys(self) -> tuple[Mark, Sequence[AccessKey]]:
        return await self._read_marked(_read_all)

    async def add(self, key: AccessKey) -> None:
        await self._write(lambda connection: connection.execute(sa.insert(access_keys).values(_values(key))))

    async def replace(self, key: AccessKey) -> bool:
        # What is noted of its use meanwhile stays.
        values = {name: value for name, value in _values(key).items() if name != "last_used_at"}
        own = (access_keys.c.key_id == key.key_id, access_keys.c.version == key.version)
        changing = sa.update(access_keys).where(*own).values(values | {"version": key.version + 1})
        return await self._write(lambda connection: connection.execute(changing).rowcount == 1)

    async def note_uses(self, uses: Mapping[str, int]) -> None:
        rows = [{"used_id": key_id, "used_at": at} for key_id, at in sorted(uses.items())]
        await self._write(lambda connection: connection.execute(_NOTE_USE, rows))


def has_keys(*, url: str) -> bool:
    """Whether the database `url` has any key, ended ones too; no table, no keys. Raises StoreUnavailable."""
    return read_unopened(url, access_keys, _find_any, missing=False)


def _find_any(connection: sa.Connection) -> bool:
    return bool(connection.execute(_MARK).one()[0])


def _read_all(connection: sa.Connection) -> Sequence[AccessKey]:
    return [_read_key(row) for row in connection.execute(_ALL)]


def _values(key: AccessKey) -> dict[str, Any]:
    return msgspec.structs.asdict(key) | {
        "role": key.role.value,
        "labels": msgspec.json.encode(key.labels).decode(),
    }


def _read_key(row: sa.Row[Any]) -> AccessKey:
    values = {name: row._mapping[name] for name in AccessKey.__struct_fields__}
    return AccessKey(
        **values
        | {
            "role": Role(row.role),
            "labels": _LABELS.decode(row.labels),
            "digest": bytes(row.digest),
            "earlier": bytes(row.earlier),
        }
    )
