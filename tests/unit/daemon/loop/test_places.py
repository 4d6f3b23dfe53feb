"""Places in the queue of a pool, worked out by what has changed, are those of sorting everything."""

from dataclasses import replace
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from muster.core.state.startable import startable
from muster.daemon.loop.places import QueuePlaces
from muster.model.view import JobState, Phase
from tests.builders import cluster, job, view

POOLS = ("a", "b")


def at(number: int, pool: str, priority: int, phase: Phase = Phase.WAITING) -> JobState:
    asked = replace(job(f"j{number}", number=number), pool=pool, priority=priority)
    return JobState(asked, phase, float(number))


def everyone(places: QueuePlaces, jobs: dict[int, JobState]) -> dict[int, int | None]:
    return {number: places.place(number) for number in jobs}


def test_as_the_policy_ranks_them_then_by_priority_and_age() -> None:
    states = [at(1, "a", 0), at(2, "a", 0), at(3, "a", 5), at(4, "b", 0), at(5, "a", 0)]
    held = replace(states[4], held_by="ann")
    jobs = {each.number: each for each in (*states[:4], held)}
    places = QueuePlaces(jobs, (2,))
    assert everyone(places, jobs) == {2: 1, 3: 2, 1: 3, 4: 1, 5: None}
    assert set(places.delayed) == {5}


def test_a_job_that_was_delayed_has_a_place_with_the_next_order() -> None:
    late = replace(at(1, "a", 0), not_before=60.0)
    before = QueuePlaces({1: late}, now=30.0)
    assert (before.place(1), before.next_start({1: late}, 30.0)) == (None, 60.0)
    after = QueuePlaces({1: late}, now=60.0)
    assert (after.place(1), after.next_start({1: late}, 60.0)) == (1, inf)


Change = tuple[int, str, int, str]
CHANGES = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.sampled_from(POOLS),
        st.integers(0, 2),
        st.sampled_from(["waits", "runs", "is held", "is late", "ends", "ranked"]),
    ),
    max_size=20,
)


@given(CHANGES)
def test_following_comes_to_the_same_as_sorting_anew(changes: list[Change]) -> None:
    jobs: dict[int, JobState] = {}
    order: tuple[int, ...] = ()
    places = QueuePlaces(jobs)
    for number, pool, priority, what in changes:
        if what == "ends":
            jobs.pop(number, None)
        elif what == "ranked":
            order = tuple(sorted(jobs, reverse=True))
            places = QueuePlaces(jobs, order)
        else:
            phase = Phase.RUNNING if what == "runs" else Phase.WAITING
            by, late = ("ann" if what == "is held" else ""), (99.0 if what == "is late" else 0.0)
            jobs[number] = replace(at(number, pool, priority, phase), held_by=by, not_before=late)
        places.take([number], jobs, 0.0)
        anew = QueuePlaces(jobs, order)
        assert everyone(places, jobs) == everyone(anew, jobs)
        assert places.delayed.keys() == anew.delayed.keys()
        seen = replace(view(cluster(1)), jobs=dict(jobs))
        assert startable(seen, 0.0, delayed=places.delayed).jobs == startable(seen, 0.0).jobs
