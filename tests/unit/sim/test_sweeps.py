"""Sweeps in a simulation: who enters, goes on and stops, and what that gives to others."""

from dataclasses import replace
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from muster.model.pool import single_pool
from muster.model.sweep import Asha, Axis, Sweep
from muster.policy.registry import POLICIES
from muster.sim.engine import Setting
from muster.sim.executor import Pauses
from muster.sim.result import Result
from muster.sim.scenario.configuration import Configuration
from muster.sim.scenario.prepare import prepare, run_prepared
from muster.sim.scenario.run import simulate
from muster.sim.sweeps.drawn_sweep import DrawnSweep
from muster.sim.sweeps.played_sweep import PlayedSweep
from muster.sim.sweeps.sweeps_driver import SweepsDriver
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed
from tests.builders import cluster, job, node_set
from tests.unit.sim.small import cluster_file, trace_file

EPOCHS = 9


def played(curves: list[list[float]], asha: Asha | None = None, at_most: int = 0) -> PlayedSweep:
    """A sweep with these losses by epoch; an epoch takes 10 s."""
    axis = Axis("i", low=0, high=len(curves) - 1, whole=True)
    made = Sweep(100_000, job("search"), (axis,), at_most=at_most, asha=asha)
    return PlayedSweep(0.0, made, curves, 10.0)


def falling(count: int) -> list[list[float]]:
    """Members that are better the later they come."""
    return [[1.0 / (place + epoch + 1) for epoch in range(EPOCHS)] for place in range(count)]


def simulated(*sweeps: PlayedSweep, jobs: tuple[Arrival, ...] = ()) -> Result:
    """Four devices, first in first out; a start takes no time."""
    there = cluster(1, node_set(devices=4))
    pools = single_pool(there.devices_by_type())
    setting = Setting(there, pools, POLICIES.find("fifo"), pauses=Pauses(start=0.0), sweeps=sweeps)
    return simulate(setting, jobs)


def trained(result: Result) -> float:
    """s that members have run."""
    return sum(
        each.ended - each.started
        for each in result.records
        if each.ended is not None and each.started is not None and each.name.startswith("search")
    )


def test_without_early_stopping_every_member_trains_to_its_end() -> None:
    result = simulated(played(falling(8)))
    assert len(result.records) == 8
    assert trained(result) == 8 * EPOCHS * 10.0


def test_at_most_two_members_run_at_once() -> None:
    spans = [(each.started, each.ended) for each in simulated(played(falling(6), at_most=2)).records]
    for began, _ in spans:
        assert began is not None
        assert sum(s is not None and e is not None and s <= began < e for s, e in spans) <= 2


def test_losers_stop_at_rungs_and_others_start_earlier() -> None:
    late = Arrival(1.0, job("other", number=1), Fixed(50.0))
    plain = simulated(played(falling(12)[::-1]), jobs=(late,))
    early = simulated(played(falling(12)[::-1], Asha()), jobs=(late,))
    assert trained(early) < 0.6 * trained(plain)
    waits = [next(e.started for e in r.records if e.name == "other") for r in (plain, early)]
    assert waits[0] is not None
    assert waits[1] is not None
    assert waits[1] < waits[0]


@given(
    st.integers(3, 20),
    st.sampled_from([2, 3, 4]),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_every_member_ends_and_the_best_is_never_stopped(
    count: int, eta: int, at_most: int, random: Random
) -> None:
    """Whatever the order in which members come to their rungs: the rules are the daemon's."""
    order = list(range(count))
    random.shuffle(order)
    curves = [[1.0 + rank - epoch / 100 for epoch in range(EPOCHS)] for rank in order]
    sweep = played(curves, Asha(eta=eta), at_most)
    driver = SweepsDriver([sweep])
    running = driver.take(0.0)
    legs = 0
    while running:
        one = running.pop(random.randrange(len(running)))
        driver.started(one.job.number, 0.0)
        running += driver.take(0.0)
        driver.ended(one.job.number, 0.0)
        running += driver.take(0.0)
        legs += 1
        assert at_most == 0 or len(running) <= at_most
    best = sweep.sweep.member_name(order.index(0))
    assert best not in driver.pruned
    assert len(driver.pruned) < count
    assert legs >= count, "every member has run"
    assert driver.next_at(0.0) == float("inf")


def test_a_sweep_that_comes_later_waits_for_its_time() -> None:
    sweep = replace(played(falling(3)), at=500.0)
    assert min(each.submitted for each in simulated(sweep).records) == 500.0


def test_a_sweep_is_drawn_beside_a_trace_and_told_apart_from_its_jobs(tmp_path: Path) -> None:
    trace = trace_file(tmp_path, "0,1,100,a", "60,1,50,b")
    path = cluster_file(tmp_path, devices=4)
    made = Configuration(cluster=str(path), trace=str(trace), policy="fifo", pause=0.0)
    plain, early = (
        run_prepared(prepare(replace(made, sweep=DrawnSweep(members=9, epochs=9, rung=rung))))
        for rung in (0, 1)
    )
    assert plain.notes[0] == "sweep of 9: 9 trained to the end, 0 stopped early; 81 of 81 epochs"
    assert plain.notes[1].startswith("the 2 other jobs: mean ")
    assert "stopped early" in early.notes[0]
    assert trained_epochs(early) < 81
    assert made.hash not in (plain.hash, early.hash)


def trained_epochs(result: Result) -> int:
    """Of a sweep, as its note says."""
    return int(result.notes[0].partition("; ")[2].split()[0])
