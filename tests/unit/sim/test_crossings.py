"""Links that carry less than the cluster file claims, learnt by the code that the daemon uses."""

from dataclasses import replace
from pathlib import Path

import pytest

from muster.core.cycle.cycle_state import Rules
from muster.files.errors import InputError
from muster.policy.published.fifo import Fifo
from muster.sim.crossings import SHARE
from muster.sim.engine import Setting
from muster.sim.result import Result
from muster.sim.scenario.prepare import prepare, run_prepared
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed
from tests.builders import cluster, job, node_set
from tests.unit.sim.scripted import of, run, setting
from tests.unit.sim.small import cluster_file, two_jobs

SLOW = {"n0": 0.1}
DRAG = 1 + SHARE * 9
"""A job over nodes of which one has a tenth: steps are as many times as long."""


def two_by_two(true: dict[str, float], *, learns: bool = True) -> Setting:
    """Four nodes of two devices, packed; jobs of four workers take two."""
    there = cluster(4, node_set(devices=2))
    made = setting(Fifo(), there, rules=Rules(strategy="pack"), steady=True)
    return replace(made, true_links=true, learn_links=learns)


def one_after_another(made: Setting) -> Result:
    """The first over all nodes, the second over two of them."""
    first = Arrival(0.0, job("first", 8), Fixed(100.0, 8))
    second = Arrival(1000.0, job("second", 4), Fixed(100.0, 4))
    return run(made, first, second)


def nodes(result: Result, name: str) -> set[str]:
    return {stint.node for stint in result.stints if stint.job == name}


def test_the_second_job_goes_around_what_the_first_has_shown() -> None:
    result = one_after_another(two_by_two(SLOW))
    assert of(result, "first").ended == pytest.approx(100.0 * DRAG)
    assert nodes(result, "second") == {"n1", "n2"}
    assert of(result, "second").ended == pytest.approx(1100.0)


def test_a_long_job_leaves_a_node_whose_link_turns_out_slow() -> None:
    """Two nodes with good links are free; where jobs are not moved it stays to the end."""
    made, work = two_by_two(SLOW), 4000.0
    alone = Arrival(0.0, job("a", 4), Fixed(work, 4))
    result = run(made, alone)
    assert nodes(result, "a") > {"n0"} and of(result, "a").migrations == 1
    assert (of(result, "a").ended or 0.0) < 1.2 * work
    stays = run(replace(made, rules=Rules(strategy="pack", migrate=False)), alone)
    assert of(stays, "a").ended == pytest.approx(work * DRAG)


def test_who_does_not_learn_runs_into_it_again() -> None:
    result = one_after_another(two_by_two(SLOW, learns=False))
    assert nodes(result, "second") == {"n0", "n1"}
    assert of(result, "second").ended == pytest.approx(1000.0 + 100.0 * DRAG)


def test_links_as_claimed_change_nothing() -> None:
    result = one_after_another(two_by_two({}))
    assert (of(result, "first").ended, of(result, "second").ended) == (100.0, 1100.0)


def test_a_job_on_one_node_crosses_nothing() -> None:
    result = run(two_by_two(SLOW), Arrival(0.0, job("a", 2), Fixed(100.0, 2)))
    assert of(result, "a").ended == 100.0


def test_true_links_are_part_of_a_configuration_and_name_nodes_of_its_cluster(tmp_path: Path) -> None:
    plain = two_jobs(tmp_path)
    assert "true_links" not in plain.values(), "results of before have the hash they had"
    slow = replace(plain, cluster=str(cluster_file(tmp_path, nodes=2)), true_links=(("n1", 0.5),))
    assert slow.hash != replace(slow, learn_links=False).hash
    assert len(run_prepared(prepare(slow)).records) == 2
    with pytest.raises(InputError, match="n9"):
        prepare(replace(slow, true_links=(("n9", 0.5),)))
