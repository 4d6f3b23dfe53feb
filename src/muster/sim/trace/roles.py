"""Shared roles: a million jobs of a trace have a few dozen different ones."""

from functools import lru_cache

from muster.model.job import Need, Role, RoleSpec

ONE_DEVICE = Need(devices=1)


@lru_cache(maxsize=4096)
def workers(least: int, most: int, need: Need = ONE_DEVICE) -> tuple[RoleSpec, ...]:
    """Return the role of workers that start with `least` together and may grow to `most`."""
    return (RoleSpec(Role.WORKER, need, gang=least, least=least, most=most),)
