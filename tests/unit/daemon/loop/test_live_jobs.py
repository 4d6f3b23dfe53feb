"""Which live jobs a list shows: whose they are, how they stand, in which order."""

from collections import Counter
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from muster.daemon.loop.live_jobs import LiveJobs, Standing
from muster.store.job_filter import JobFilter

STATUSES = ("waiting", "running", "stopping")
standing = st.tuples(
    st.tuples(st.sampled_from("ab"), st.sampled_from(("default", "shared"))), st.sampled_from(STATUSES)
)
histories = st.lists(st.tuples(st.integers(1, 12), st.none() | standing), max_size=40)
filters = st.builds(
    JobFilter,
    user=st.sampled_from((None, "a", "b")),
    pool=st.sampled_from((None, "default", "shared")),
    users_or_pools=st.sampled_from((None, ("a", ()), ("b", ("shared",)), ("c", ()))),
)


def shown(wanted: JobFilter, user: str, pool: str) -> bool:
    """Who may see what, as the guide says it."""
    asked = wanted.user in (None, user) and wanted.pool in (None, pool)
    if wanted.users_or_pools is None:
        return asked
    mine, shared = wanted.users_or_pools
    return asked and (user == mine or pool in shared)


@given(
    histories,
    filters,
    st.sets(st.sampled_from(STATUSES)),
    st.none() | st.integers(1, 12),
    st.integers(1, 5),
)
def test_lists_and_counts_are_of_the_jobs_as_they_stand_now(
    history: list[tuple[int, Standing | None]],
    wanted: JobFilter,
    statuses: set[str],
    before: int | None,
    limit: int,
) -> None:
    live = LiveJobs()
    for each in history:
        live.take([each])
    now = {number: known for number, known in dict(history).items() if known is not None}
    mine = {number: status for number, (owner, status) in now.items() if shown(wanted, *owner)}
    assert live.counts(wanted.shows) == Counter(mine.values())
    listed = [number for number, status in mine.items() if status in statuses]
    page = [number for number in sorted(listed, reverse=True) if before is None or number < before]
    assert list(islice(live.newest(wanted.shows, tuple(statuses), before), limit)) == page[:limit]
