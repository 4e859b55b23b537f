"""Small tables that all processes keep in memory: keys of callers, stored secrets and calendars.

They implement `ports.shared_tables` in the history's database. No row is removed: each change adds one to
the sum of `version`, or to the count of rows, by which processes see that there is something new.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.keys_and_roles import OF_SETTINGS, AccessKey, Role
from scheduler_service.persistence.sql.database import DatabaseThreads, OpenDatabase, read_unopened
from scheduler_service.persistence.sql.expressions import text
from scheduler_service.ports.errors import StoreConflict
from scheduler_service.ports.shared_tables import REMOVED, Mark, StoredCalendar, StoredSecret

T = TypeVar("T")
_LABELS = msgspec.json.Decoder(tuple[str, ...])
_ENDED = msgspec.json.Decoder(tuple[tuple[str, int], ...])
metadata = sa.MetaData()


class MarkedTable:
    """A small table that all processes keep in memory, in a thread of its own, and the mark by which they see
    that it has changed: two figures of all its rows.
    """

    def __init__(self, *, database: OpenDatabase) -> None:
        thread = DatabaseThreads(database, name=self.name)
        self._file_stamp = database.dialect.file_stamp
        self._seen: tuple[object, Mark] | None = None
        self._read, self._write, self.close = thread.read, thread.write, thread.close

    name: str
    """Of the thread."""
    marking: sa.Select[int, int]
    """Reads the mark."""

    async def mark(self) -> Mark:
        """As `ports.shared_tables.SharedTable.mark`; a file that nobody wrote to since is not read again."""
        stamp = self._file_stamp()
        if self._seen is not None and stamp == self._seen[0]:
            return self._seen[1]
        mark = await self._read(self._read_mark)
        self._seen = None if stamp is None else (stamp, mark)
        return mark

    async def _read_marked(self, read: Callable[[sa.Connection], T]) -> tuple[Mark, T]:
        """What `read` finds, and the mark of that moment."""
        return await self._read(lambda connection: (self._read_mark(connection), read(connection)))

    def _read_mark(self, connection: sa.Connection) -> Mark:
        one, other = connection.execute(self.marking).one()
        return int(one), int(other)


def _is_of(table: sa.Table, tenant: str, name: str) -> sa.ColumnElement[bool]:
    return (table.c.tenant == tenant) & (table.c.name == name)


def _sum(column: sa.Column[int]) -> sa.ColumnElement[int]:
    return sa.func.coalesce(sa.func.sum(column), 0)


# Members of `domain.keys_and_roles.AccessKey`.
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
    sa.Column("ended", sa.Text),
)
_KEYS_MARK = sa.select(sa.func.count(access_keys.c.key_id), _sum(access_keys.c.version))
_KEYS = sa.select(access_keys).order_by(access_keys.c.created_at, access_keys.c.key_id)
_used_at: sa.BindParameter[int] = sa.bindparam("used_at", type_=sa.BigInteger)
_last_use = access_keys.c.last_used_at
_NOTE_USE = (
    sa.update(access_keys)
    .where(access_keys.c.key_id == sa.bindparam("used_id"), sa.or_(_last_use.is_(None), _used_at > _last_use))
    .values(last_used_at=_used_at)
)


class SqlKeyTable(MarkedTable):
    """`ports.shared_tables.KeyTable`."""

    name, marking = "keys", _KEYS_MARK

    async def keys(self) -> tuple[Mark, Sequence[AccessKey]]:
        return await self._read_marked(_read_keys)

    async def add(self, key: AccessKey) -> None:
        adding = sa.insert(access_keys).values(_key_values(key))
        await self._write(lambda connection: connection.execute(adding))

    async def replace(self, key: AccessKey) -> bool:
        # What is noted of its use meanwhile stays.
        values = {name: value for name, value in _key_values(key).items() if name != "last_used_at"}
        own = (access_keys.c.key_id == key.key_id, access_keys.c.version == key.version)
        changing = sa.update(access_keys).where(*own).values(values | {"version": key.version + 1})
        return await self._write(lambda connection: connection.execute(changing).rowcount == 1)

    async def revoke(self, key: AccessKey, beside: AccessKey) -> bool:
        # One statement over both rows: whoever ends the other one at this moment waits for them.
        one = access_keys.c
        known = [(one.key_id == each.key_id) & (one.version == each.version) for each in (key, beside)]
        end = sa.case(
            (one.key_id == key.key_id, sa.literal(key.revoked_at, sa.BigInteger)), else_=one.revoked_at
        )
        ending = sa.update(access_keys).where(sa.or_(*known)).values(revoked_at=end, version=one.version + 1)

        def write(connection: sa.Connection) -> None:
            if connection.execute(ending).rowcount != len(known):
                raise StoreConflict("one of two keys was changed")

        try:
            await self._write(write)
        except StoreConflict:
            return False
        return True

    async def note_uses(self, uses: Mapping[str, int]) -> None:
        rows = [{"used_id": key_id, "used_at": at} for key_id, at in sorted(uses.items())]
        await self._write(lambda connection: connection.execute(_NOTE_USE, rows))


def has_keys(*, url: str) -> bool:
    """Whether the database `url` has any key, ended ones too; no table, no keys. Raises StoreUnavailable."""
    return read_unopened(url, access_keys, _has_any, missing=False)


def read_keys(*, url: str) -> Sequence[AccessKey]:
    """All keys of a database whose service may not run; no table, no keys. Raises StoreUnavailable."""
    return read_unopened(url, access_keys, _read_keys, missing=())


def living_keys(*, url: str, now: int) -> Sequence[Any]:
    """Id, tenant and name of the keys that are valid, also in tables of an older version.

    Raises StoreUnavailable.
    """
    one = access_keys.c
    selection = sa.select(one.key_id, one.tenant, one.name).where(
        one.key_id != OF_SETTINGS,
        one.revoked_at.is_(None),
        sa.or_(one.expires_at.is_(None), one.expires_at > now),
    )
    return read_unopened(url, access_keys, lambda connection: connection.execute(selection).all(), missing=())


def put_key(connection: sa.Connection, key: AccessKey) -> None:
    """Writes a key as it is, whatever is there under its id."""
    values = _key_values(key)
    changing = sa.update(access_keys).where(access_keys.c.key_id == key.key_id).values(values)
    if connection.execute(changing).rowcount == 0:
        connection.execute(sa.insert(access_keys).values(values))


def _has_any(connection: sa.Connection) -> bool:
    own = sa.select(access_keys.c.key_id).where(access_keys.c.key_id != OF_SETTINGS)
    return connection.execute(own.limit(1)).first() is not None


def _read_keys(connection: sa.Connection) -> Sequence[AccessKey]:
    return [_read_key(row) for row in connection.execute(_KEYS)]


def _key_values(key: AccessKey) -> dict[str, Any]:
    return msgspec.structs.asdict(key) | {
        "role": key.role.value,
        "labels": msgspec.json.encode(key.labels).decode(),
        "ended": msgspec.json.encode(key.ended).decode() if key.ended else None,
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
            "ended": _ENDED.decode(row.ended or "[]"),
        }
    )


# Members of `ports.shared_tables.StoredSecret`.
stored_secrets = sa.Table(
    "stored_secrets",
    metadata,
    sa.Column("tenant", text(128), primary_key=True),
    sa.Column("name", text(128), primary_key=True),
    sa.Column("sealed", sa.LargeBinary, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)
_SECRETS_MARK = sa.select(sa.func.count(stored_secrets.c.name), _sum(stored_secrets.c.version))
_SECRET = tuple(stored_secrets.c[name] for name in StoredSecret.__struct_fields__)
_SECRETS = sa.select(*_SECRET).order_by(stored_secrets.c.tenant, stored_secrets.c.name)


class SqlSecretTable(MarkedTable):
    """`ports.shared_tables.SecretTable`."""

    name, marking = "secrets", _SECRETS_MARK

    async def secrets(self) -> tuple[Mark, Sequence[StoredSecret]]:
        return await self._read_marked(_read_secrets)

    async def put(self, secret: StoredSecret) -> None:
        is_own = _is_of(stored_secrets, secret.tenant, secret.name)
        values = msgspec.structs.asdict(secret)

        def write(connection: sa.Connection) -> None:
            reading = sa.select(stored_secrets.c.sealed, stored_secrets.c.created_at).where(is_own)
            known = connection.execute(reading.with_for_update()).first()
            if known is None:
                connection.execute(sa.insert(stored_secrets).values(**values, version=1))
                return
            created = known.created_at if known.sealed else secret.created_at
            changed = values | {"created_at": created, "version": stored_secrets.c.version + 1}
            connection.execute(sa.update(stored_secrets).where(is_own).values(changed))

        await self._write(write)


def _read_secrets(connection: sa.Connection) -> Sequence[StoredSecret]:
    found = (StoredSecret(one[0], one[1], bytes(one[2]), *one[3:]) for one in connection.execute(_SECRETS))
    return [one for one in found if one.sealed]


# Members of `ports.shared_tables.StoredCalendar`.
calendars = sa.Table(
    "calendars",
    metadata,
    sa.Column("tenant", text(128), primary_key=True),
    sa.Column("name", text(128), primary_key=True),
    sa.Column("document", sa.LargeBinary(1 << 20), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("told", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("changed_at", sa.BigInteger, nullable=False),
)
_CALENDARS_MARK = sa.select(_sum(calendars.c.version), _sum(calendars.c.told))


class SqlCalendarTable(MarkedTable):
    """`ports.shared_tables.CalendarTable`."""

    name, marking = "calendars", _CALENDARS_MARK

    async def calendars(self) -> tuple[Mark, Sequence[StoredCalendar]]:
        return await self._read_marked(_read_calendars)

    async def put(
        self, tenant: str, name: str, document: bytes, at: int, *, expected: frozenset[int] | None = None
    ) -> bool:
        def write(connection: sa.Connection) -> bool:
            is_own = _is_of(calendars, tenant, name)
            reading = sa.select(calendars.c.document, calendars.c.version).where(is_own).with_for_update()
            known = connection.execute(reading).first()
            is_there = known is not None and known.document[:1] != REMOVED
            if expected is not None and (known.version if known and is_there else 0) not in expected:
                return False
            values: dict[str, Any] = {"document": document, "changed_at": at}
            if not is_there:
                values["created_at"] = at
            if known is None:
                fresh = {"tenant": tenant, "name": name, "version": 1, "told": 0}
                connection.execute(sa.insert(calendars).values(**fresh, **values))
            else:
                values["version"] = calendars.c.version + 1
                connection.execute(sa.update(calendars).where(is_own).values(values))
            return True

        return await self._write(write)

    async def restore(self, calendar: StoredCalendar) -> bool:
        is_own = _is_of(calendars, calendar.tenant, calendar.name)
        changing = (
            sa.update(calendars)
            .where(is_own, calendars.c.version == calendar.version)
            .values(document=calendar.document.removeprefix(REMOVED), version=calendars.c.version + 1)
        )
        return await self._write(lambda connection: connection.execute(changing).rowcount == 1)

    async def note_told(self, tenant: str, name: str, version: int) -> None:
        is_later = _is_of(calendars, tenant, name) & (calendars.c.told < version)
        noting = sa.update(calendars).where(is_later).values(told=version)
        await self._write(lambda connection: connection.execute(noting))


def read_calendars(*, url: str) -> Sequence[StoredCalendar]:
    """All calendars of a database whose service may not run, removed ones too; no table, none.

    Nothing is changed there. Raises StoreUnavailable.
    """
    return read_unopened(url, calendars, _read_calendars, missing=())


def _read_calendars(connection: sa.Connection) -> Sequence[StoredCalendar]:
    rows = connection.execute(sa.select(calendars).order_by(calendars.c.tenant, calendars.c.name))
    return [StoredCalendar(one[0], one[1], bytes(one[2]), *one[3:]) for one in rows]
