"""No user ever gets more devices in a pool than it gives each, whatever happens and whoever decides."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.job import Job
from muster.model.pool import PoolTree
from muster.model.view import View
from muster.policy.base import Policy
from muster.policy.muster import Muster
from muster.policy.published.fifo import Fifo
from tests.prop.worlds import History, histories
from tests.world import World

USERS = ("ann", "bob")


@settings(deadline=None, max_examples=50)
@given(histories(), st.lists(st.none() | st.integers(1, 6), min_size=8, max_size=8), st.booleans())
def test_no_user_is_given_more_than_the_pool_gives_each(
    history: History, caps: list[int | None], steers: bool
) -> None:
    policy: Policy = Muster() if steers else Fifo()
    tree = history.view.pools
    names = sorted(tree.pools)
    capped = {
        name: replace(tree.pools[name], devices_per_user=caps[place % len(caps)])
        for place, name in enumerate(names)
    }
    pools = PoolTree({name: capped[name] for name in tree.pools})
    steps = tuple(
        (at, tuple(replace(job, user=_user(job)) for job in jobs), salt)
        for at, jobs, salt in history.steps
    )
    owned = {
        number: replace(state, job=replace(state.job, user=_user(state.job)))
        for number, state in history.view.jobs.items()
    }
    start = replace(history.view, pools=pools, jobs=owned, names={})
    before = _held(start)
    for frame in History(start, steps).play(World(start, policy=policy)):  # each cycle is checked
        now = _held(frame.after)
        for (pool, user), devices in now.items():
            most = pools.pools[pool].devices_per_user
            assert most is None or devices <= max(most, before[pool, user])
        before = now


def _user(job: Job) -> str:
    return USERS[sum(job.name.encode()) % len(USERS)]


def _held(view: View) -> "Counter[tuple[str, str]]":
    """Devices that users hold by pool, during a change the larger of before and after."""
    found: Counter[tuple[str, str]] = Counter()
    for state in view.jobs.values():
        both = (state.placement, state.target)
        devices = max((each.devices for each in both if each is not None), default=0)
        for pool in view.pools.ancestry(state.job.pool):
            found[pool, state.job.user] += devices
    return found
