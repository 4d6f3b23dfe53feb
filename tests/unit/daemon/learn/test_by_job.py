"""What follows from each job, worked out by what has changed, is what it would be anew."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from muster.daemon.learn.by_job import ByJob
from muster.model.job import Job
from muster.model.view import JobState, Phase
from tests.builders import job


def state(number: int, priority: int = 0) -> JobState:
    return JobState(replace(job(f"j{number}", number=number), priority=priority), Phase.WAITING, 0.0)


def derived(each: Job) -> tuple[str, int]:
    return each.name, each.priority


CHANGES = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.integers(0, 3),
        st.sampled_from(["is", "is met", "ends", "learns", "asks"]),
    ),
    max_size=30,
)


@given(CHANGES)
def test_it_is_what_it_would_be_anew(changes: list[tuple[int, int, str]]) -> None:
    jobs: dict[int, JobState] = {}
    kept, version, factor = ByJob(lambda each: (*derived(each), factor)), 0, 0
    for number, priority, what in changes:
        if what == "ends":
            jobs = {key: each for key, each in jobs.items() if key != number}
        elif what == "learns":
            version, factor = version + 1, factor + 1
        elif what in ("is", "is met"):
            new = number not in jobs
            jobs = {**jobs, number: state(number, priority)}
            if what == "is met" and new:
                kept.meet(jobs[number])
        else:
            left_out = {key for key in jobs if key == number}
            found = kept.of(jobs, version, left_out)
            for key, each in jobs.items():
                if key not in left_out:
                    assert found[key][:2] == derived(each.job)
            assert found.keys() <= jobs.keys()
    assert kept.of(jobs, version) == {key: (*derived(each.job), factor) for key, each in jobs.items()}


def test_of_five_thousand_jobs_the_one_that_has_changed_is_looked_at() -> None:
    looked: list[int] = []
    kept = ByJob(lambda each: looked.append(each.number))
    jobs = {number: state(number) for number in range(1, 5_001)}
    kept.of(jobs, 0)
    assert len(looked) == 5_000
    looked.clear()
    kept.of({**jobs, 7: state(7, 1)}, 0)
    assert looked == [7]
