"""What an administrator is told of the jobs on draining nodes: what a cycle then does with them."""

from dataclasses import replace

import pytest

from muster.daemon.service.governing.draining import Draining
from muster.model.cluster import NodeState
from muster.model.job import Job
from muster.model.view import JobState, Phase, View
from tests.builders import cluster, job, node_set, placement, view
from tests.world import on

FOUR = node_set(devices=4)
ELASTIC = job("elm", 2, most=4)
RIGID = job("oak", 2)


def drained(
    *jobs: Job | JobState, nodes: int = 2, names: str = "n0", until: float | None = None
) -> View:
    """Two nodes of four devices, with these nodes draining."""
    there = cluster(nodes, FOUR)
    turned = tuple(
        replace(n, state=NodeState.DRAINING, until=until) if n.name in names.split() else n
        for n in there.nodes
    )
    return view(replace(there, nodes=turned), jobs)


def told(seen: View, name: str = "n0", end: float | None = None) -> dict[str, tuple[str, float | None]]:
    """How each job leaves this node, and when."""
    records = Draining().leaving(seen, seen.cluster.node(name), lambda _: end, lambda job: job.name)
    return {each.name: (each.how, each.at) for each in records}


def test_an_elastic_job_with_room_elsewhere_moves() -> None:
    assert told(drained(on(ELASTIC, "n0", 0b1111))) == {"elm": ("moves", None)}


@pytest.mark.parametrize("asked", [ELASTIC, RIGID])
def test_with_every_node_draining_a_job_goes_back_to_the_queue(asked: Job) -> None:
    seen = drained(on(asked, "n0", 0b11), names="n0 n1", until=1000.0)
    at = 1000.0 - 2 * asked.program.grace
    assert told(seen) == {asked.name: ("queues", at)}


def test_without_a_deadline_a_job_with_nowhere_to_move_stays() -> None:
    assert told(drained(on(ELASTIC, "n0", 0b11), names="n0 n1")) == {"elm": ("stays", None)}
    assert told(drained(on(RIGID, "n0", 0b11), names="n0 n1")) == {"oak": ("ends", None)}


def test_one_that_ends_in_time_is_not_stopped() -> None:
    seen = drained(on(ELASTIC, "n0", 0b11), names="n0 n1", until=1000.0)
    assert told(seen, end=900.0) == {"elm": ("ends", 900.0)}


def test_room_for_less_than_a_gang_is_none() -> None:
    full = on(job("ash", 3), "n1", 0b111)
    seen = drained(on(ELASTIC, "n0", 0b11), full, until=1000.0)
    assert told(seen)["elm"][0] == "queues"


def test_two_jobs_are_not_told_of_the_same_room() -> None:
    full = on(job("ash", 2), "n1", 0b11)
    jobs = [on(RIGID, "n0", 0b11), on(ELASTIC, "n0", 0b1100), full]
    how = {name: how for name, (how, _) in told(drained(*jobs, until=1000.0)).items()}
    assert how == {"oak": "queues", "elm": "moves"}


def test_a_job_on_its_way_to_a_node_that_now_drains_too_has_nowhere_to_move() -> None:
    moving = replace(
        on(ELASTIC, "n0", 0b11), phase=Phase.RESIZING, target=placement(("n1", 0b1), ("n1", 0b10))
    )
    assert told(drained(moving))["elm"] == ("moves", None)
    assert told(drained(moving, names="n0 n1", until=1000.0))["elm"][0] == "queues"
