"""Layouts of workers: how many nodes of each kind, how many devices on each, and in which racks."""

from dataclasses import replace

from muster.model.cluster import NodeState
from muster.planner.layout import Layout, NodeGroup, kinds_of, layouts, nodes_of
from tests.builders import cluster, mixed, node_set

SMALL, LARGE = node_set("small", devices=1), node_set("large", devices=4)


def counted(layout: Layout) -> list[tuple[str, int, int]]:
    return [(group.kind.configuration, group.nodes, group.devices) for group in layout.groups]


def test_nodes_alike_in_set_and_free_devices_are_one_kind() -> None:
    on = cluster(3, LARGE)
    used = replace(on, nodes=(replace(on.nodes[0], free=0b0011), *on.nodes[1:]))
    kinds = [(kind.configuration, kind.free, kind.count) for kind in kinds_of(used, ["large"])]
    assert sorted(kinds) == [("large", 2, 1), ("large", 4, 2)]


def test_nodes_that_cannot_take_workers_are_left_out() -> None:
    on = mixed((2, LARGE), (1, SMALL), (1, node_set("cpu", devices=0)))
    lost = replace(on.nodes[0], state=NodeState.DRAINING)
    full = replace(on.nodes[1], free=0)
    on = replace(on, nodes=(lost, full, *on.nodes[2:]))
    assert [kind.configuration for kind in kinds_of(on, ["large", "small", "cpu"])] == ["small"]
    assert kinds_of(on, ["large"]) == ()


def test_every_layout_of_two_nodes_with_two_devices() -> None:
    kinds = kinds_of(cluster(2, node_set("a", devices=2)), ["a"])
    found = [counted(layout) for layout in layouts(kinds, 1, 4)]
    assert sorted(found) == [[("a", 1, 1)], [("a", 1, 2)], [("a", 2, 1)], [("a", 2, 2)]]


def test_kinds_are_combined_in_all_ways_within_the_limits() -> None:
    kinds = kinds_of(mixed((1, SMALL), (1, LARGE)), ["small", "large"])
    sizes = sorted(layout.devices for layout in layouts(kinds, 1, 100))
    assert sizes == [1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert sorted(layout.devices for layout in layouts(kinds, 2, 3)) == [2, 2, 3, 3]


def test_near_nodes_share_as_few_racks_as_possible() -> None:
    on = cluster(6, SMALL, racks=3)
    (kind,) = kinds_of(on, ["small"])
    layout = Layout((NodeGroup(kind, 2, 1),))
    assert len({node.rack for node, _ in nodes_of(layout)}) == 1


def test_dealt_nodes_take_racks_in_turn() -> None:
    on = cluster(6, SMALL, racks=3)
    (kind,) = kinds_of(on, ["small"])
    layout = Layout((NodeGroup(kind, 3, 1),))
    assert sorted(node.rack for node, _ in nodes_of(layout, dealt=True)) == ["r0", "r1", "r2"]


def test_either_way_a_layout_gets_its_nodes_each_once() -> None:
    on = mixed((5, SMALL), (4, LARGE), racks=2)
    kinds = {kind.configuration: kind for kind in kinds_of(on, ["small", "large"])}
    layout = Layout((NodeGroup(kinds["small"], 4, 1), NodeGroup(kinds["large"], 3, 2)))
    for dealt in (False, True):
        found = nodes_of(layout, dealt=dealt)
        assert len({node.name for node, _ in found}) == 7
        assert sum(devices for _, devices in found) == layout.devices == 10
