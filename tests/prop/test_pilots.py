"""Whatever Slurm and the queue do: no pilot is cancelled at work or doubled, losses are told once."""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from muster.ports import NodeDemand, NodeDeparts, NodeGone
from muster.providers.slurm.pilots import Bounds, Pilot, Pilots, SlurmJob, Steps, follow, regard, steer

BOUNDS = st.builds(
    lambda least, more, devices: Bounds(least, least + more, devices, 60.0, 100.0, 20.0),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(1, 8),
)
HAPPENS = st.lists(
    st.tuples(
        st.sampled_from(["wait", "grant", "end", "preempt", "join", "work", "rest", "drain", "refuse"]),
        st.integers(0, 20),
        st.floats(0.0, 200.0),
        st.integers(0, 40),
    ),
    max_size=60,
)


@dataclass
class Slurm:
    """Jobs as Slurm has them, which nodes have joined, and which have tasks."""

    jobs: dict[int, SlurmJob] = field(default_factory=dict)
    joined: set[int] = field(default_factory=set)
    working: set[int] = field(default_factory=set)

    def live(self) -> list[SlurmJob]:
        return [job for job in self.jobs.values() if not job.ended]

    def happen(self, what: str, which: int, departed: set[int]) -> None:
        """Something that happens to one of the jobs, if it can."""
        if not (live := self.live()):
            return
        job = live[which % len(live)]
        number = job.number
        if what == "grant" and not job.running:
            self.jobs[number] = replace(job, running=True, host=f"g{which}", left=300.0)
        elif what == "end":
            self.jobs[number] = SlurmJob(number, False, "it has ended")
            self.working.discard(number)
        elif what == "preempt" and job.running:
            self.jobs[number] = replace(job, grace=20.0)
        elif what == "join" and job.running:
            self.joined.add(number)
        elif what == "work" and number in self.joined - departed:
            self.working.add(number)
        elif what == "rest":
            self.working.discard(number)

    def pass_time(self, seconds: float) -> None:
        for job in self.live():
            if job.left is not None:
                left = job.left - seconds
                self.jobs[job.number] = (
                    replace(job, left=left) if left > 0 else SlurmJob(job.number, False, "time")
                )

    def demand(self, pilots: Pilots, wanted: int) -> NodeDemand:
        names = {each.job: each.node for each in pilots.known.values() if each.job in self.joined}
        idle = tuple(node for job, node in names.items() if job not in self.working)
        return NodeDemand({"": wanted}, idle=idle, nodes=tuple(names.values()))


@given(BOUNDS, HAPPENS)
def test_pilots_are_never_too_many_never_cancelled_at_work_and_mourned_once(
    bounds: Bounds, happens: list[tuple[str, int, float, int]]
) -> None:
    slurm, pilots, now = Slurm(), Pilots(), 0.0
    departed: set[int] = set()
    gone: list[str] = []
    for what, which, seconds, wanted in happens:
        now += seconds
        slurm.pass_time(seconds)
        slurm.happen(what, which, departed)
        draining = {f"g{which}": "dust"} if what == "drain" else {}
        pilots, news = follow(pilots, slurm.jobs.values(), draining, now)
        demand = slurm.demand(pilots, wanted)
        pilots = regard(pilots, demand, frozenset(), now)
        pilots, steps = steer(pilots, demand, bounds, now)
        told = (*news, *steps.news)
        gone += [each.node for each in told if isinstance(each, NodeGone)]
        leaving = {each.node for each in told if isinstance(each, NodeDeparts)}
        departed |= {each.job for each in pilots.known.values() if each.node in leaving}
        _check(slurm, pilots, bounds, steps, departed)
        for _ in range(steps.submit):
            number = len(slurm.jobs) + 1
            slurm.jobs[number] = SlurmJob(number, False)
            pilots = pilots.with_([Pilot(number, now)])
        for number in steps.cancel:
            slurm.jobs[number] = SlurmJob(number, False, "cancelled")
    assert len(gone) == len(set(gone)), "a node was lost twice"


def _check(slurm: Slurm, pilots: Pilots, bounds: Bounds, steps: Steps, departed: set[int]) -> None:
    assert set(pilots.known) == {job.number for job in slurm.live()}
    assert not slurm.working & set(steps.cancel), "work was cancelled"
    joined = {number for number in steps.cancel if pilots.known[number].joined}
    assert joined <= departed, "a node was cancelled that could still get work"
    staying = [
        each
        for each in pilots.known.values()
        if each.leaving is None and not (each.left is not None and each.left <= bounds.lead)
    ]
    if steps.submit:
        assert len(staying) + steps.submit <= bounds.most, "too many"
        assert not set(steps.cancel) & {each.job for each in staying if not each.running}, "to and fro"
