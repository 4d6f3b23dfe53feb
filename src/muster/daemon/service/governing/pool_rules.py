"""Who may submit to a pool, and with what priority. Rules of a pool bind all pools below it."""

import grp
import os
import pwd
from collections.abc import Callable, Iterable

from muster.daemon.service.protocol import Caller, ForbiddenError, RefusedError
from muster.model.job import Job
from muster.model.pool import PoolTree

Groups = Callable[[str], frozenset[str]]
"""The Unix groups of a user."""


def groups_of(user: str) -> frozenset[str]:
    """Return the groups of a user of this machine; none if it has no such user."""
    try:
        gid = pwd.getpwnam(user).pw_gid
    except KeyError:
        return frozenset()
    found = set()
    for each in os.getgrouplist(user, gid):
        try:
            found.add(grp.getgrgid(each).gr_name)
        except KeyError:  # a number without a name
            continue
    return frozenset(found)


def is_open(caller: Caller, job: Job, pools: PoolTree) -> bool:
    """Whether anybody may submit this: neither the pool nor one above it names users. Asks nobody."""
    if caller.admin or job.pool not in pools.pools:
        return True
    return not any(pools.pools[name].allow for name in pools.ancestry(job.pool))


def refuse_stranger(caller: Caller, job: Job, pools: PoolTree, groups: Groups = groups_of) -> None:
    """Refuse a user whom the pool, or one above it, does not name. Administrators always may."""
    if caller.admin or job.pool not in pools.pools:
        return
    for name in pools.ancestry(job.pool):
        allowed = pools.pools[name].allow
        if allowed and not _among(job.user, allowed, groups):
            raise ForbiddenError(
                f"{job.user} may not submit to pool {job.pool!r}: pool {name!r} allows "
                f"{', '.join(allowed)}"
            )


def refuse_priority(caller: Caller, job: Job, value: int, pools: PoolTree) -> None:
    """Refuse a priority above the pool's highest, or that of a pool above it."""
    if caller.admin or job.pool not in pools.pools:
        return
    for name in pools.ancestry(job.pool):
        most = pools.pools[name].max_priority
        if most is not None and value > most:
            raise ForbiddenError(
                f"priority {value} is above {most}, the highest of pool {name!r} for users"
            )


def refuse_unknown(allowed: Iterable[str], users: frozenset[str]) -> None:
    """Refuse a list that names a user or group that does not exist. `users`: those with tokens."""
    for name in allowed:
        if name.startswith("@"):
            if not _is_group(name[1:]):
                raise RefusedError(f"no group {name[1:]!r} on this machine; see: getent group")
        else:
            refuse_unknown_user(name, users)


def refuse_unknown_user(name: str, users: frozenset[str]) -> None:
    """Refuse a user with neither a token nor an account of this machine."""
    if name not in users and not _has_account(name):
        raise RefusedError(
            f"no user {name!r}: neither a token nor an account of this machine has that name; "
            "see: muster token list"
        )


def _among(user: str, allowed: tuple[str, ...], groups: Groups) -> bool:
    if user in allowed:
        return True
    wanted = {name[1:] for name in allowed if name.startswith("@")}
    return bool(wanted) and bool(wanted & groups(user))


def _is_group(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def _has_account(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
