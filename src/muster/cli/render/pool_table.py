"""`muster pool list`: a row for each pool and device type."""

from collections.abc import Sequence

import typer

from muster.cli.exits import NOT_FOUND
from muster.cli.render.table import table
from muster.cli.render.terminal import complain
from muster.model.duration import in_hours
from muster.wire.api.records import PoolRecord, QuotaRecord

_HEADING = ("POOL", "PARENT", "TYPE", "RESERVED", "SHARE", "LIMIT", "ENTITLED", "USED", "RUNNING")
_ANY = QuotaRecord("-")
"""The quota shown for a pool that has none."""


def pool_table(pools: Sequence[PoolRecord], *, wide: bool = False) -> str:
    heading = (*_HEADING, "WAITING", *(("KIND", "JOBS SEEN BY") if wide else ()))
    rows = [_row(pool, quota, wide) for pool in pools for quota in quotas_shown(pool)]
    return table(heading, rows, left=(0, 1, 2, 10, 11))


def _row(pool: PoolRecord, quota: QuotaRecord, wide: bool) -> tuple[str, ...]:
    figures = (
        _amount(quota.reservation, quota.reservation_part),
        f"{quota.share:g}",
        "-" if quota.limit is None else _amount(quota.limit, quota.limit_part),
        str(quota.entitled),
        str(quota.used),
        str(pool.running),
        str(pool.pending),
    )
    kind = "takes jobs" if pool.leaf else "holds pools"
    more = (kind, "all its users" if pool.shared else "their user") if wide else ()
    return (pool.name, pool.parent, quota.device_type, *figures, *more)


def quotas_shown(pool: PoolRecord) -> Sequence[QuotaRecord]:
    """Return the quotas to show: that of every type only where there is no device yet."""
    of_types = [quota for quota in pool.quotas if quota.device_type != "*"]
    return of_types or pool.quotas or (_ANY,)


def _amount(devices: int, part: float | None) -> str:
    return str(devices) if part is None else f"{devices} ({part * 100:g}%)"


def pool_rules(pool: PoolRecord) -> list[str]:
    """Return a line for each rule about who may use the pool, how much, and who decides."""
    lines = []
    if pool.allow:
        lines.append(f"may submit: {', '.join(pool.allow)}; administrators always may")
    if pool.max_priority is not None:
        lines.append(f"highest priority of users: {pool.max_priority}")
    if pool.devices_per_user is not None:
        lines.append(f"devices per user: {pool.devices_per_user}")
    if pool.policy:
        own = pool.own_policy or pool.own_aim
        lines.append(f"policy: {pool.policy}{'' if own else ', of the pool above'}")
    if pool.budget is not None:
        lines.append(f"device-hours this month: {in_hours(pool.budget_used)} of {pool.budget:,g}")
    return lines


def named(pools: Sequence[PoolRecord], name: str) -> PoolRecord:
    """Return the pool of that name; end the command if there is none."""
    for pool in pools:
        if pool.name == name:
            return pool
    complain(f"no pool named {name!r}; pools: {', '.join(pool.name for pool in pools)}")
    raise typer.Exit(NOT_FOUND)
