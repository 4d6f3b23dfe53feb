"""What users of other schedulers complained about, as tests (../shared/design/conventions.md)."""

import re
from pathlib import Path

import pytest

from muster.model.decision import Kind
from muster.model.event import NodeLost, NodeReturned
from muster.model.job import Locality
from muster.model.pool import Pool, PoolTree, Quota
from muster.model.reason import Code
from muster.model.topology import Level
from muster.model.view import Phase
from muster.policy.published.fifo import Fifo
from muster.sim.play import play
from muster.sim.truth import Arrival
from tests.builders import cluster, job, node_set, view
from tests.numbers import name_of
from tests.world import World, flat, on

NODE = Locality(Level.NODE)
OWNED = flat(owner=Quota(reservation=16), guest=Quota())


def test_two_gangs_of_the_whole_cluster_submitted_together_never_both_hold_devices() -> None:
    """volcano#3373"""
    arrivals = [Arrival(0.0, job(name, 16, duration=100.0)) for name in ("one", "two")]
    order = []
    there = cluster(2)
    for frame in play(there, view(there).pools, arrivals, Fifo()):
        holding = [state.job.name for state in frame.after.jobs.values() if state.held()]
        assert len(holding) <= 1
        order += [name_of(d.job) for d in frame.decided.decisions if d.kind is Kind.START]
    assert order == ["one", "two"]


def test_after_a_node_returns_a_stranded_gang_goes_before_a_younger_equal_one() -> None:
    """volcano#5805"""
    world = World(view(cluster(2), [job("old", 16), job("young", 16)]))
    world.settle()
    world.happen(NodeLost("n1", 1.0))
    world.settle(60.0)
    assert world.phase("old") is Phase.WAITING
    world.happen(NodeReturned("n1", 61.0))
    frame = world.settle(1.0)
    assert frame.names(Kind.START) == {"old"}


def test_a_stranded_gang_goes_first_even_where_the_younger_one_has_a_promise() -> None:
    """The node is lost and back between two cycles, so the promise on it still looks good."""
    world = World(view(cluster(2), [job("old", 16), job("young", 16)]))
    world.settle()
    world.settle(700.0)
    assert [name_of(promise.job) for promise in world.memory.promises] == ["young"]
    world.happen(NodeLost("n1", world.now), NodeReturned("n1", world.now))
    assert world.settle().names(Kind.START) == {"old"}


@pytest.mark.parametrize("locality", [NODE, Locality()])
def test_preemption_takes_whole_gangs_and_the_fewest_jobs(locality: Locality) -> None:
    """volcano#3291, #4607: one gang of four goes, not four of one that cost the same, nor eight."""
    guests = [on(job(f"g{i}", pool="guest"), "n0", 1 << i) for i in range(4)]
    large = on(job("large", 4, pool="guest"), "n0", 0xF0)
    full = on(job("full", 8, pool="guest"), "n1", 0xFF)
    asks = job("asks", 4, pool="owner", locality=locality)
    frame = World(view(cluster(2), [*guests, large, full, asks], OWNED), 100.0).cycle()
    assert frame.names(Kind.PREEMPT) == {"large"}


def test_preemption_uses_free_and_preempted_nodes_together() -> None:
    """volcano#4374"""
    guest = on(job("guest", 8, pool="guest"), "n0", 0xFF)
    world = World(view(cluster(2), [guest, job("asks", 16, pool="owner")], OWNED))
    assert world.cycle().names(Kind.PREEMPT) == {"guest"}
    world.settle()
    assert world.bits("asks") == {"n0": 0xFF, "n1": 0xFF}


@pytest.mark.parametrize(
    ("left", "victim"),
    [
        ({"long ago", "just saved", "just begun", "costly"}, "just saved"),
        ({"long ago", "just begun", "costly"}, "just begun"),
        ({"long ago", "costly"}, "long ago"),
    ],
)
def test_victims_are_priced_by_lost_work(left: set[str], victim: str) -> None:
    """kueue#477: a job just started or just checkpointed is not the same as one that was not."""
    states = [
        on(job("long ago", 4, pool="guest"), "n0", 0x0F),
        on(job("just saved", 4, pool="guest"), "n0", 0xF0, checkpointed=95.0),
        on(job("just begun", 4, pool="guest"), "n1", 0x0F, started=90.0),
        on(job("costly", 4, pool="guest", pause=600.0), "n1", 0xF0, started=99.0),
    ]
    guests = [state for state in states if state.job.name in left]
    asks = job("asks", 4 * (5 - len(guests)), pool="owner")
    frame = World(view(cluster(2), [*guests, asks], OWNED), 100.0).cycle()
    assert frame.names(Kind.PREEMPT) == {victim}


def test_of_equal_priority_the_newest_is_preempted() -> None:
    """determined#3340"""
    old = on(job("a old", 4, pool="guest"), "n0", 0x0F, submitted=0.0, started=0.0)
    new = on(job("b new", 4, pool="guest"), "n0", 0xF0, submitted=50.0, started=50.0)
    tree = flat(owner=Quota(reservation=8), guest=Quota())
    frame = World(view(cluster(1), [old, new, job("asks", 4, pool="owner")], tree), 100.0).cycle()
    assert frame.names(Kind.PREEMPT) == {"b new"}


def test_a_lower_priority_goes_before_a_cheaper_higher_one() -> None:
    low = on(job("low", 4, pool="guest", priority=0), "n0", 0x0F, started=0.0)
    high = on(job("high", 4, pool="guest", priority=1), "n0", 0xF0, started=99.0)
    tree = flat(owner=Quota(reservation=8), guest=Quota())
    frame = World(view(cluster(1), [low, high, job("asks", 4, pool="owner")], tree), 100.0).cycle()
    assert frame.names(Kind.PREEMPT) == {"low"}


def test_six_small_jobs_on_each_node_and_then_a_large_one_do_not_block_the_queue() -> None:
    """kueue#5243, pai#2013"""
    small = [on(job(f"s{n}{i}"), f"n{n}", 1 << i) for n in range(3) for i in range(6)]
    world = World(view(cluster(3), [*small, job("large", 8, locality=NODE)]), 20.0)
    world.submit(*(job(f"later{i}") for i in range(4)))
    frame = world.cycle()
    assert frame.decision("large").kind is Kind.WAIT
    assert frame.names(Kind.START) == {f"later{i}" for i in range(4)}


def test_and_the_large_one_is_not_passed_for_ever() -> None:
    """Once it is out of patience, what comes free on one node is kept for it."""
    states = [
        on(job(f"s{n}{i}", preemptible=False), f"n{n}", 1 << i) for n in range(3) for i in range(8)
    ]
    world = World(view(cluster(3), [*states, job("large", 8, locality=NODE)]))
    world.cycle(700.0)
    (promise,) = world.memory.promises
    (node,) = promise.placement.nodes()
    world.end(*(f"s{node[1:]}{i}" for i in range(7)))
    world.submit(*(job(f"later{i}") for i in range(4)))
    frame = world.cycle(60.0)
    assert not frame.of(Kind.START)
    assert {frame.reason(f"later{i}").code for i in range(4)} == {Code.WAITING_PROMISE}
    world.end(f"s{node[1:]}7")
    assert "large" in world.cycle(60.0).names(Kind.START)


def test_a_new_job_on_an_idle_cluster_starts_in_the_first_cycle_after_it_came() -> None:
    """adaptdl#19"""
    world = World(view(cluster(1)), 12.25)
    world.cycle()
    world.submit(job("j", 8))
    frame = world.cycle()
    assert frame.now == 12.25
    assert frame.names(Kind.START) == {"j"}


PAGE = (Path(__file__).parents[3] / "docs/explanation/pools.md").read_text(encoding="utf-8")


def sections() -> list[str]:
    return [s for s in PAGE.split("\n## ")[1:] if "Capacity" in s]


@pytest.mark.parametrize("section", sections(), ids=lambda text: text.splitlines()[0])
def test_fair_share_is_what_the_page_says_when_it_is_lived_through(section: str) -> None:
    """KAI#1934, volcano#4165: the worked examples, with one-device jobs on an empty cluster."""
    found = re.search(r"Capacity: (\d+) devices", section)
    assert found is not None
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines][2:]
    tree = PoolTree({row[0]: Pool(row[0], row[1], {"A100": _quota(row)}) for row in rows})
    there = cluster(int(found[1]), node_set(devices=1, sockets=1, switches=1))
    jobs = [
        job(f"{row[0]}{i}", pool=row[0]) for row in rows if row[5] != "-" for i in range(int(row[5]))
    ]
    world = World(view(there, jobs, tree), 100.0)
    frame = world.cycle()
    started = frame.names(Kind.START)
    for row in rows:
        if row[5] != "-":
            mine = {name for name in started if re.fullmatch(rf"{row[0]}\d+", name)}
            assert len(mine) == int(row[6]), row[0]


def _quota(row: list[str]) -> Quota:
    return Quota(int(row[2]), float(row[3]), None if row[4] == "-" else int(row[4]))


def test_demand_that_rises_again_takes_back_what_was_lent() -> None:
    """The second example of the page, after the first: 12 of each borrower must be given back."""
    quota = Quota(reservation=20, limit=100)
    tree = flat(vision=quota, speech=quota, text=quota)
    there = cluster(100, node_set(devices=1, sockets=1, switches=1))
    jobs = [job(f"v{i}", pool="vision") for i in range(10)]
    jobs += [job(f"{pool[0]}{i}", pool=pool) for pool in ("speech", "text") for i in range(80)]
    world = World(view(there, jobs, tree), 200.0)
    world.cycle()
    world.settle()
    world.submit(*(job(f"more{i}", pool="vision") for i in range(40)))
    frame = world.cycle(1.0)
    victims = frame.names(Kind.PREEMPT)
    assert len([name for name in victims if name.startswith("s")]) == 12
    assert len([name for name in victims if name.startswith("t")]) == 12
    frame = world.settle()
    assert len(frame.names(Kind.START)) == 24
