"""The view agrees with what the executor says of nodes, if not at once, then in a later turn."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from muster.daemon.gang.state import Sight
from muster.daemon.loop.fold import Turn, fold
from muster.daemon.loop.node_news import NodeNews
from muster.daemon.loop.state import State
from muster.model.cluster import Cluster, NodeState
from muster.model.event import (
    NodeAdded,
    NodeDraining,
    NodeEvent,
    NodeLeft,
    NodeLost,
    NodeReturned,
)
from muster.model.view import Phase
from tests.builders import cluster, job, node_set, placement, running, view
from tests.numbers import number

J = number("j")
FOUR = node_set("four", devices=4)
OTHER_EIGHT = node_set(devices=4)
"""Called as the nodes' own configuration set, with other contents."""


class Turns:
    """A state and what happens to it, turn by turn."""

    def __init__(self, *places: tuple[str, int]) -> None:
        jobs = [running(job("j", len(places)), placement(*places))] if places else []
        self.state = State(view(cluster(2), jobs), {}, "fifo")
        self.news = NodeNews()

    @property
    def cluster(self) -> Cluster:
        return self.state.view.cluster

    def tell(self, *reports: NodeEvent) -> None:
        self._adopt(fold(self.state, dict[int, Sight](), list(map(self.news.entry, reports)), 1.0))

    def refresh(self) -> None:
        self._adopt(fold(self.state, dict[int, Sight](), self.news.retries(), 1.0))

    def _adopt(self, turn: Turn) -> None:
        self.state = turn.state
        for entry in turn.accepted:
            for call in entry.then:
                call()


def test_a_node_that_has_left_takes_with_it_what_was_just_placed_there() -> None:
    turns = Turns(("n0", 1))
    turns.tell(NodeLeft("n0", 1.0, "given back"))
    assert "n0" in turns.cluster.index
    turns.refresh()
    assert "n0" not in turns.cluster.index
    assert turns.state.view.jobs[J].phase is Phase.WAITING
    assert not turns.news.retries()


def test_a_node_that_returns_with_other_devices_has_them_though_a_job_holds_the_old() -> None:
    turns = Turns(("n0", 1))
    other = cluster(1, FOUR).node("n0")
    turns.tell(NodeAdded(other, 1.0, FOUR))
    turns.refresh()
    assert turns.cluster.node("n0") == other
    assert turns.state.view.jobs[J].phase is Phase.WAITING


def test_a_node_that_cannot_be_described_yet_joins_when_nothing_is_in_its_way() -> None:
    turns = Turns()
    third = replace(cluster(1, OTHER_EIGHT).node("n0"), name="n2")
    turns.tell(NodeAdded(third, 1.0, OTHER_EIGHT), NodeDraining("n2", 2.0))
    turns.refresh()
    assert "n2" not in turns.cluster.index
    turns.tell(NodeLeft("n0", 3.0), NodeLeft("n1", 3.0))
    turns.refresh()
    assert turns.cluster.node("n2").state is NodeState.DRAINING
    assert not turns.news.retries()


def test_a_node_that_came_and_went_unseen_is_forgotten() -> None:
    turns = Turns()
    third = replace(cluster(1, OTHER_EIGHT).node("n0"), name="n2")
    turns.tell(NodeAdded(third, 1.0, OTHER_EIGHT))
    turns.tell(NodeLost("n2", 2.0), NodeLeft("n2", 3.0))
    turns.refresh()
    assert not turns.news.retries()


def test_reports_that_fit_are_folded_together_and_owe_nothing() -> None:
    turns = Turns(("n0", 1))
    turns.tell(NodeDraining("n0", 1.0), NodeReturned("n0", 2.0), NodeLost("n1", 3.0))
    assert turns.cluster.node("n1").state is NodeState.LOST
    assert not turns.news.retries()


STORY = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(("n0", "n1", "n2"))), max_size=12)


@given(STORY, st.booleans())
def test_whatever_the_fleet_says_the_view_has_its_nodes_in_the_end(
    story: list[tuple[int, str]], often: bool
) -> None:
    turns, there = Turns(("n0", 1), ("n1", 2)), {"n0", "n1"}
    for at, (kind, name) in enumerate(story, start=1):
        node = replace(cluster(1, FOUR if at % 2 else node_set()).node("n0"), name=name)
        if name not in there:
            turns.tell(NodeAdded(node, at, FOUR if at % 2 else node_set()))
            there.add(name)
            continue
        reports: list[NodeEvent] = [
            NodeAdded(node, at, FOUR if at % 2 else node_set()),
            NodeLost(name, at),
            NodeReturned(name, at),
            NodeDraining(name, at),
            NodeLeft(name, at),
        ]
        turns.tell(reports[kind])
        there -= {name} if kind == 4 else set()
        if often:
            turns.refresh()
    turns.refresh()
    assert set(turns.cluster.index) == there
