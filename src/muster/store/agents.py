"""Rows of join tokens and of agents' certificates, and the epoch of the active daemon."""

from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, delete, select, update

from muster.store import lists
from muster.store.schema import identities, invitations, settings
from muster.wire.api.trust_records import IdentityRecord, InvitationRecord

EPOCH = "epoch"
"""The setting that counts the daemons that took charge."""
_SHOWN_ONCE = ("token", "command")
_COLUMNS = [column for column in invitations.c if column.name != "digest"]


def next_epoch(connection: Connection) -> int:
    """Count one more daemon that took charge, and return its number."""
    known = connection.scalar(select(settings.c.value).where(settings.c.key == EPOCH))
    epoch = int(known or 0) + 1
    lists.put(connection, settings, [{"key": EPOCH, "value": str(epoch)}])
    return epoch


def add_invitation(connection: Connection, digest: str, invitation: InvitationRecord) -> None:
    row = {name: value for name, value in asdict(invitation).items() if name not in _SHOWN_ONCE}
    lists.add(connection, invitations, [{"digest": digest, **row}])


def all_invitations(connection: Connection) -> list[InvitationRecord]:
    query = select(*_COLUMNS).order_by(invitations.c.created)
    return [InvitationRecord(**row._mapping) for row in connection.execute(query)]


def invitation(connection: Connection, digest: str) -> InvitationRecord | None:
    query = select(*_COLUMNS).where(invitations.c.digest == digest)
    row = connection.execute(query).one_or_none()
    return None if row is None else InvitationRecord(**row._mapping)


def admit(connection: Connection, digest: str, identity: IdentityRecord) -> bool:
    """Count a use of a join token and store who joined with it; False if it has no use left."""
    c = invitations.c
    changes: dict[str, Any] = {"used": c.used + 1, "used_by": identity.node, "used_at": identity.joined}
    query = update(invitations).where(c.digest == digest, c.used < c.uses).values(**changes)
    if connection.execute(query).rowcount == 0:
        return False
    put_identity(connection, identity)
    return True


def drop_invitations(connection: Connection, name: str | None, expired: float) -> int:
    """Remove the join tokens of a name, or all that expired before a moment; return how many."""
    old = invitations.c.expires < expired if name is None else invitations.c.name == name
    return connection.execute(delete(invitations).where(old)).rowcount


def put_identity(connection: Connection, identity: IdentityRecord) -> None:
    lists.put(connection, identities, [asdict(identity)])


def all_identities(connection: Connection) -> list[IdentityRecord]:
    rows = connection.execute(select(identities).order_by(identities.c.node))
    return [IdentityRecord(**row._mapping) for row in rows]
