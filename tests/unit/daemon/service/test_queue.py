"""Places in the queue of a pool, worked out by what has changed, are those of sorting everything."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from muster.daemon.service.reading.queue import Queue
from muster.model.view import JobState, Phase, View
from tests.builders import cluster, job, view

POOLS = ("a", "b")


def at(number: int, pool: str, priority: int, phase: Phase = Phase.WAITING) -> JobState:
    asked = replace(job(f"j{number}", number=number), pool=pool, priority=priority)
    return JobState(asked, phase, float(number))


def everyone(queue: Queue, seen: View, order: tuple[int, ...]) -> dict[int, int | None]:
    return {number: queue.place(number, seen, order, 0.0) for number in seen.jobs}


def test_as_the_policy_ranks_them_then_by_priority_and_age() -> None:
    states = [at(1, "a", 0), at(2, "a", 0), at(3, "a", 5), at(4, "b", 0), at(5, "a", 0)]
    held = replace(states[4], held_by="ann")
    seen = replace(view(cluster(1)), jobs={each.number: each for each in (*states[:4], held)})
    assert everyone(Queue(), seen, (2,)) == {2: 1, 3: 2, 1: 3, 4: 1, 5: None}


Change = tuple[int, str, int, str]
CHANGES = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.sampled_from(POOLS),
        st.integers(0, 2),
        st.sampled_from(["waits", "runs", "ends", "ranked"]),
    ),
    max_size=20,
)


@given(CHANGES)
def test_following_comes_to_the_same_as_sorting_anew(changes: list[Change]) -> None:
    seen, queue = view(cluster(1)), Queue()
    order: tuple[int, ...] = ()
    for number, pool, priority, what in changes:
        jobs = dict(seen.jobs)
        if what == "ends":
            jobs.pop(number, None)
        elif what == "ranked":
            order = tuple(sorted(jobs, reverse=True))
        else:
            phase = Phase.WAITING if what == "waits" else Phase.RUNNING
            jobs[number] = at(number, pool, priority, phase)
        seen = replace(seen, jobs=jobs)
        assert everyone(queue, seen, order) == everyone(Queue(), seen, order)
