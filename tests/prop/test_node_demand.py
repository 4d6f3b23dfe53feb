"""What must hold of the demand for nodes in any state of the cluster: each test is one sentence."""

from dataclasses import replace

from hypothesis import given, settings

from muster.daemon.fleet.demand import node_demand
from muster.model.cluster import Node, NodeState
from muster.model.job import Locality
from muster.model.topology import ConfigurationSet
from muster.model.view import Phase, View
from tests.prop.worlds import History, open_histories

EVERY = settings(max_examples=20, deadline=None, derandomize=True, database=None)


def views(history: History) -> list[View]:
    return [frame.after for frame in history.play(history.world())]


@given(open_histories())
@EVERY
def test_idle_nodes_are_there_and_hold_no_task(history: History) -> None:
    for state in views(history):
        busy = {slot.node for each in state.jobs.values() for slot in each.held()}
        for name in node_demand(state).idle:
            assert state.cluster.node(name).state is not NodeState.LOST
            assert name not in busy


@given(open_histories())
@EVERY
def test_without_waiting_and_elastic_jobs_nothing_is_wanted_and_empty_nodes_are_idle(
    history: History,
) -> None:
    for state in views(history):
        rigid = {n: s for n, s in state.jobs.items() if s.placement and not s.job.elastic}
        found = node_demand(replace(state, jobs=rigid, names={}))
        assert found.devices == {}
        busy = {slot.node for each in rigid.values() for slot in each.held()}
        there = [node.name for node in state.cluster.nodes if node.state is not NodeState.LOST]
        assert found.idle == tuple(name for name in there if name not in busy)


def eased(state: View) -> View:
    """The waiting jobs alone, without contracts."""
    waiting = {}
    for number, each in state.jobs.items():
        if each.phase is Phase.WAITING:
            job = replace(each.job, locality=Locality(), same_generation=False)
            waiting[number] = replace(each, job=job)
    return replace(state, jobs=waiting, names={})


def empty(name: str, kind: ConfigurationSet) -> Node:
    return Node(name, kind.name, "r0", "d0", kind.all_devices, kind.millicores, kind.memory)


@given(open_histories(cycles=8))
@EVERY
def test_with_nodes_enough_for_the_demand_nothing_more_is_wanted(history: History) -> None:
    whole = history.joining
    assert whole is not None
    for state in map(eased, views(history)):
        asked = sum(node_demand(state).devices.values())
        # A worker of two devices and one of four cores may each leave something unused.
        joined = [
            Node(
                f"{kind.name}-{i}",
                kind.name,
                "r0",
                "d0",
                kind.all_devices,
                kind.millicores,
                kind.memory,
            )
            for kind in whole.configurations.values()
            for i in range(2 * asked)
        ]
        nodes = (*state.cluster.nodes, *joined)
        richer = replace(state.cluster, nodes=nodes, configurations=dict(whole.configurations))
        assert node_demand(replace(state, cluster=richer)).devices == {}
