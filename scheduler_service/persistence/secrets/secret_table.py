"""Stored secrets in SQL: `ports.secrets.SecretTable` in the history's database."""

from collections.abc import Sequence

import sqlalchemy as sa

from scheduler_service.persistence.sql.database import MarkedTable
from scheduler_service.persistence.sql.expressions import text
from scheduler_service.ports.secrets import Mark, StoredSecret

metadata = sa.MetaData()

# Members of `ports.secrets.StoredSecret`. No row is removed: each change adds one to the sum of `version`, or
# to the count of rows, by which processes see that there is something new.
_TABLE = stored_secrets = sa.Table(
    "stored_secrets",
    metadata,
    sa.Column("tenant", text(128), primary_key=True),
    sa.Column("name", text(128), primary_key=True),
    sa.Column("sealed", sa.LargeBinary, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)
_MARK = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(_TABLE.c.version), 0)).select_from(_TABLE)
_ALL = sa.select(
    _TABLE.c.tenant, _TABLE.c.name, _TABLE.c.sealed, _TABLE.c.created_at, _TABLE.c.updated_at
).order_by(_TABLE.c.tenant, _TABLE.c.name)


class SqlSecretTable(MarkedTable):
    """`ports.secrets.SecretTable` over the history's database, in a thread of its own."""

    name, marking = "secrets", _MARK

    async def secrets(self) -> tuple[Mark, Sequence[StoredSecret]]:
        return await self._read_marked(_read_all)

    async def put(self, secret: StoredSecret) -> None:
        def write(connection: sa.Connection) -> None:
            known = connection.execute(
                sa.select(_TABLE.c.sealed, _TABLE.c.created_at).where(*_is(secret)).with_for_update()
            ).first()
            if known is None:
                connection.execute(sa.insert(_TABLE).values(**_values(secret), version=1))
                return
            created = known.created_at if known.sealed else secret.created_at
            changed = _values(secret) | {"created_at": created, "version": _TABLE.c.version + 1}
            connection.execute(sa.update(_TABLE).where(*_is(secret)).values(changed))

        await self._write(write)


def _read_all(connection: sa.Connection) -> Sequence[StoredSecret]:
    found = (StoredSecret(one[0], one[1], bytes(one[2]), *one[3:]) for one in connection.execute(_ALL))
    return [one for one in found if one.sealed]


def _is(secret: StoredSecret) -> tuple[sa.ColumnElement[bool], ...]:
    return _TABLE.c.tenant == secret.tenant, _TABLE.c.name == secret.name


def _values(secret: StoredSecret) -> dict[str, object]:
    return {name: getattr(secret, name) for name in StoredSecret.__struct_fields__}
