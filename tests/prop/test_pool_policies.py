"""Each pool its own policy: nothing is held twice, gangs are whole, pools keep to their limits, and
every job ends. Every cycle of a simulation is checked (`core/state/check.py`)."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle.cycle import Cycle, Memory
from muster.model.pool import Pool, PoolTree
from muster.policy.registry import POLICIES, every_aim
from muster.sim.result import Fate
from muster.sim.scenario.run import simulate
from tests.prop.test_engine import Play, plays, refuse_bad_figures, refuse_overlaps
from tests.prop.worlds import History, histories

FEW = settings(max_examples=4, deadline=None, derandomize=True, database=None)
SOME = settings(max_examples=10, deadline=None, derandomize=True, database=None)
NAMES = tuple(POLICIES)
OWN = (*NAMES, *(f"muster:aim={aim}" for aim in every_aim()), None)


def own_policies(pools: PoolTree, salt: int) -> PoolTree:
    """The same pools, each with a policy of its own; an inner one's is for those without below it."""
    random = Random(salt)
    return PoolTree(
        {name: replace(pool, policy=random.choice(OWN)) for name, pool in pools.pools.items()}
    )


@given(play=plays(troubled=False), salt=st.integers(0, 2**16))
@SOME
def test_whatever_the_policies_of_pools_every_job_that_can_run_does(play: Play, salt: int) -> None:
    play = replace(play, pools=own_policies(play.pools, salt))
    result = simulate(play.setting(POLICIES["muster"]), play.arrivals, stints=True)
    refuse_overlaps(result.stints)
    refuse_bad_figures(result, play)
    left = [record.name for record in result.records if record.fate is Fate.UNFINISHED]
    assert not left, (left, result.notes)


@given(play=plays(troubled=True), salt=st.integers(0, 2**16))
@SOME
def test_whatever_the_policies_of_pools_nothing_breaks_in_a_troubled_world(
    play: Play, salt: int
) -> None:
    play = replace(play, pools=own_policies(play.pools, salt))
    result = simulate(play.setting(POLICIES["fifo"]), play.arrivals, stints=True)
    refuse_overlaps(result.stints)
    refuse_bad_figures(result, play)


@given(play=plays(troubled=False), salt=st.integers(0, 2**16), planners=st.integers(2, 4))
@SOME
def test_with_planners_beside_each_other_every_job_that_can_run_does(
    play: Play, salt: int, planners: int
) -> None:
    play = replace(play, pools=own_policies(play.pools, salt))
    setting = replace(play.setting(POLICIES["muster"]), planners=planners)
    result = simulate(setting, play.arrivals, stints=True)
    refuse_overlaps(result.stints)
    refuse_bad_figures(result, play)
    left = [record.name for record in result.records if record.fate is Fate.UNFINISHED]
    assert not left, (left, result.notes)


@given(play=plays(troubled=True), salt=st.integers(0, 2**16), planners=st.integers(2, 4))
@SOME
def test_with_planners_beside_each_other_nothing_breaks_in_a_troubled_world(
    play: Play, salt: int, planners: int
) -> None:
    play = replace(play, pools=own_policies(play.pools, salt))
    setting = replace(play.setting(POLICIES["fifo"]), planners=planners, explain=True)
    result = simulate(setting, play.arrivals, stints=True)
    refuse_overlaps(result.stints)
    refuse_bad_figures(result, play)


@given(history=histories(), name=st.sampled_from(NAMES))
@FEW
def test_pools_that_name_the_clusters_policy_are_decided_about_as_if_none_did(
    history: History, name: str
) -> None:
    policy = POLICIES[name]
    plain, named = Cycle(policy), Cycle(policy)
    mine, theirs = Memory(), Memory()
    pools = history.view.pools.pools
    all_named = PoolTree({each: replace(pool, policy=name) for each, pool in pools.items()})
    for frame in history.play(history.world()):
        one = plain.decide(frame.before, frame.now, mine)
        other = named.decide(replace(frame.before, pools=all_named), frame.now, theirs)
        assert one == other
        mine, theirs = one.memory, other.memory


def test_a_pool_has_the_policy_of_the_nearest_pool_above_that_names_one() -> None:
    tree = PoolTree(
        {
            "lab": Pool("lab", policy="srtf"),
            "vision": Pool("vision", "lab"),
            "speech": Pool("speech", "lab", policy="fifo"),
            "ops": Pool("ops"),
        }
    )
    assert [tree.policy_of(name, "muster") for name in tree.pools] == ["srtf", "srtf", "fifo", "muster"]
