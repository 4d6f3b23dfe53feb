"""Pilots follow the queue, are renewed in time, and are given back when nobody needs them."""

from collections.abc import Mapping, Sequence

from muster.ports import NodeDemand, NodeDeparts, NodeGone, ProviderNews
from muster.providers.slurm.pilots import (
    EMPTY_FOR,
    JOIN_WITHIN,
    RETRY,
    Bounds,
    Pilots,
    SlurmJob,
    Steps,
    follow,
    regard,
    steer,
    without_tasks,
)

BOUNDS = Bounds(least=1, most=4, devices=4, idle=600.0, lead=1200.0, grace=120.0)
NOBODY: Mapping[str, str] = {}
HOUR = 3600.0


class World:
    """A Slurm of which every allocation is granted on request, and a daemon that its agents join."""

    def __init__(self, bounds: Bounds = BOUNDS) -> None:
        self.bounds, self.now, self.pilots = bounds, 0.0, Pilots()
        self.jobs: dict[int, SlurmJob] = {}
        self.news: list[ProviderNews] = []
        self.last = Steps()

    def turn(
        self,
        wanted: int = 0,
        idle: Sequence[str] = (),
        nodes: Sequence[str] | None = None,
        draining: Mapping[str, str] = NOBODY,
        after: float = 5.0,
    ) -> Steps:
        """One look of the provider."""
        self.now += after
        self.pilots, told = follow(self.pilots, self.jobs.values(), draining, self.now)
        here = nodes if nodes is not None else [each.node for each in self.pilots.known.values()]
        demand = NodeDemand({"v100": wanted}, idle=tuple(idle), nodes=tuple(filter(None, here)))
        self.pilots = regard(self.pilots, demand, frozenset(), self.now)
        self.pilots, self.last = steer(self.pilots, demand, self.bounds, self.now)
        self.news += [*told, *self.last.news]
        for _ in range(self.last.submit):
            number = len(self.jobs) + 1
            self.jobs[number] = SlurmJob(number, False, reason="Resources")
        for number in self.last.cancel:
            self.end(number, "the allocation was cancelled")
        return self.last

    def grant(self, number: int, left: float | None = HOUR, grace: float | None = None) -> str:
        """Slurm starts it; the name of its node."""
        self.jobs[number] = SlurmJob(number, True, "", f"g{number:03}", left, grace)
        return f"g{number:03}-{number}"

    def end(self, number: int, why: str) -> None:
        self.jobs[number] = SlurmJob(number, False, why)


def test_the_least_is_held_without_any_demand_and_never_ordered_twice() -> None:
    world = World()
    assert world.turn().submit == 1
    assert [world.turn().submit for _ in range(3)] == [0, 0, 0]
    world.grant(1)
    # Running is not yet joined.
    assert world.turn(nodes=()).submit == 0


def test_pilots_grow_with_the_queue_up_to_the_most() -> None:
    world = World()
    world.turn()
    world.grant(1)
    assert world.turn(wanted=5).submit == 2
    assert world.turn(wanted=5).submit == 0
    assert world.turn(wanted=40).submit == 1, "four at most"
    assert world.turn(wanted=400).submit == 0


def test_a_pilot_that_waits_for_a_demand_that_is_over_is_cancelled_after_the_idle_time() -> None:
    world = World()
    world.turn(wanted=8)
    home = world.grant(1)
    assert world.turn(wanted=4).cancel == ()
    assert world.turn(idle=[home]).cancel == (), "the next wave may come"
    assert world.turn(after=600.0).cancel == (2,)
    assert world.turn().submit == 0


def test_an_idle_node_departs_before_it_is_cancelled_and_the_least_stays() -> None:
    world = World()
    world.turn(wanted=8)
    nodes = [world.grant(1), world.grant(2)]
    world.turn(idle=nodes)
    assert world.turn(idle=nodes, after=599.0).news == ()
    (told,) = world.turn(idle=nodes, after=2.0).news
    assert isinstance(told, NodeDeparts)
    assert (told.node, told.why) == (nodes[0], "idle for 10m, given back to Slurm")
    assert world.last.cancel == (), "an order may be on its way"
    assert world.turn(idle=nodes, after=EMPTY_FOR / 2).cancel == ()
    assert world.turn(idle=nodes, after=EMPTY_FOR).cancel == (1,)
    assert world.turn(idle=nodes[1:], after=10_000.0).cancel == ()
    assert NodeGone(nodes[0], "Slurm: the allocation was cancelled") in world.news


def test_a_node_that_was_given_back_is_not_replaced() -> None:
    world = World()
    world.turn(wanted=8)
    nodes = [world.grant(1), world.grant(2)]
    world.turn(idle=nodes)
    world.turn(idle=nodes, after=601.0)
    # The daemon no longer has it, Slurm still lists it.
    assert world.turn(nodes=nodes[1:]).submit == 0
    world.end(1, "the agent has ended")
    assert world.turn(nodes=nodes[1:]).submit == 0


def test_a_node_that_got_work_as_it_was_given_back_is_not_cancelled_under_it() -> None:
    world = World(Bounds(0, 2, 4, 600.0, 1200.0, 120.0))
    world.turn(wanted=4)
    home = world.grant(1)
    world.turn(idle=[home])
    assert world.turn(idle=[home], after=601.0).news
    assert world.turn(idle=(), after=1.0).cancel == ()
    assert world.turn(idle=(), after=1000.0).cancel == ()
    assert 1 in world.turn(idle=[home], after=1000.0).cancel


def test_an_allocation_is_replaced_before_it_ends_and_then_its_node_departs() -> None:
    world = World()
    world.turn()
    old = world.grant(1, left=HOUR)
    assert world.turn().submit == 0
    world.grant(1, left=1199.0)
    assert (world.turn().submit, world.last.news) == (1, ()), "it works on while Slurm has no other"
    world.grant(1, left=600.0)
    assert (world.turn().submit, world.last.news) == (0, ())
    new = world.grant(2)
    assert world.turn(nodes=[old]).news == (), "the agent of the new one has not joined"
    told = world.turn(idle=[new]).news
    assert told == (NodeDeparts(old, 600.0, "its allocation ends in 10m"),)
    assert (world.turn(idle=[old, new]).cancel, world.last.submit) == ((1,), 0)


def test_a_node_departs_in_time_even_if_slurm_has_no_replacement() -> None:
    world = World()
    world.turn()
    old = world.grant(1, left=500.0)
    world.turn()
    world.grant(1, left=119.0)
    assert world.turn().news == (NodeDeparts(old, 119.0, "its allocation ends in 1m59s"),)
    world.end(1, "the allocation's time was over")
    world.turn()
    assert world.news[-1] == NodeGone(old, "Slurm: the allocation's time was over")


def test_a_preempted_and_a_drained_node_depart_once() -> None:
    world = World()
    world.turn(wanted=8)
    taken, drained = world.grant(1), world.grant(2)
    world.turn()
    world.grant(1, grace=20.0)
    for _ in range(3):
        world.turn(draining={"g002": "bad fan"})
    assert world.news == [
        NodeDeparts(taken, 20.0, "preempted by Slurm"),
        NodeDeparts(drained, HOUR, "drained in Slurm: bad fan"),
    ]


def test_a_node_that_departs_already_hears_of_a_preemption_that_comes_sooner() -> None:
    world = World()
    world.turn()
    home = world.grant(1, left=119.0)
    world.turn()
    world.grant(1, left=100.0, grace=20.0)
    world.turn()
    assert world.news[-1] == NodeDeparts(home, 20.0, "preempted by Slurm")


def test_pilots_that_never_join_are_not_submitted_in_a_row() -> None:
    world = World()
    world.turn()
    world.grant(1)
    world.turn(nodes=())
    world.end(1, "the agent has failed")
    assert world.turn(after=RETRY / 5).submit == 0
    assert world.turn(after=RETRY).submit == 1
    world.grant(2)
    world.turn(nodes=())
    world.end(2, "the agent has failed")
    world.turn()
    assert world.turn(after=RETRY).submit == 0, "twice as long"
    assert world.turn(after=RETRY).submit == 1
    # One that runs and does not join holds a node for nothing.
    world.grant(3)
    world.turn(nodes=())
    assert world.turn(nodes=(), after=JOIN_WITHIN + 1).cancel == (3,)


def test_pilots_of_an_earlier_daemon_are_found_and_not_doubled() -> None:
    world = World(Bounds(2, 4, 4, 600.0, 1200.0, 120.0))
    world.grant(1)
    world.jobs[2] = SlurmJob(2, False, reason="Priority")
    assert world.turn().submit == 0


def test_a_daemon_that_stops_gives_back_what_has_surely_no_task() -> None:
    world = World(Bounds(3, 4, 4, 600.0, 1200.0, 120.0))
    world.turn()
    idle, busy = world.grant(1), world.grant(2)
    world.turn(idle=[idle], nodes=[idle, busy])
    demand = NodeDemand({}, idle=(idle,), nodes=(idle, busy))
    assert without_tasks(world.pilots, demand) == (1, 3), "one that nobody needs, one that waits"
    assert without_tasks(world.pilots, NodeDemand({})) == (3,), "nothing is known of the others yet"
