"""Whatever depends on whatever and however jobs end: what may start does, and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from muster.daemon.loop.dependents import dependents
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.fold import fold
from muster.daemon.loop.state import State
from muster.model.event import Cancelled, Skipped, Submitted
from muster.model.job import Dependency, Job, When
from muster.model.view import Phase
from tests.builders import cluster, job, view


@st.composite
def graphs(draw: st.DrawFn) -> list[Job]:
    """Up to eight jobs, each after some of those before it."""
    found = []
    for number in range(1, draw(st.integers(1, 8)) + 1):
        parents = draw(st.sets(st.integers(1, number - 1), max_size=3)) if number > 1 else set()
        after = tuple(
            Dependency(f"j{parent}", draw(st.sampled_from(When)), parent) for parent in sorted(parents)
        )
        asked = job(f"j{number}", 1)
        found.append(Job(asked.name, roles=asked.roles, number=number, after=after))
    return found


@given(graphs(), st.data())
def test_every_job_runs_exactly_if_its_parents_ended_as_it_needs(
    jobs: list[Job], data: st.DataObject
) -> None:
    submitted = Entry([Submitted(each, 0.0) for each in jobs])
    state = fold(State(view(cluster(1)), {}, "fifo"), {}, [submitted], 0.0).state
    ended: dict[int, str] = {}
    while state.view.jobs:
        free = [each.number for each in state.view.jobs.values() if each.may_start(0.0)]
        # A graph without cycles always has a job that may start, or has been skipped already.
        assert free, "a job waits for what can no longer come"
        number = data.draw(st.sampled_from(free))
        turn = fold(state, {}, [Entry([Cancelled(number, 1.0)])], 1.0)
        ended[number] = "cancelled"
        ended |= {fact.job: "skipped" for fact in turn.facts if isinstance(fact, Skipped)}
        state = turn.state
        for each in state.view.jobs.values():
            assert each.phase is Phase.WAITING
            assert all(one.number in state.view.jobs for one in each.awaited), "it waits for live jobs"
            met = [one for one in each.job.after if one.met]
            assert all(one.when.met_by(ended[one.number]) for one in met)
        assert dependents(state, state, turn.facts) == [], "nothing is told twice"
    for asked in jobs:
        needs = [one.when.met_by(ended[one.number]) for one in asked.after]
        assert ended[asked.number] == ("cancelled" if all(needs) else "skipped")
