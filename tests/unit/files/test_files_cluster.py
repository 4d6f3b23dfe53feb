"""Cluster files that are right."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from muster.files import load_cluster
from muster.files.cluster.cluster_file import ClusterFile
from muster.model.cluster import Node, NodeState
from muster.model.pool import Quota, single_pool
from muster.model.topology import ConfigurationSet, Layer, Level, Link
from tests.counting import calls

BOX = "configurations:\n  box: {device: P100, devices: 8, cores: 16, memory: 64GB}\n"


def load(tmp_path: Path, text: str) -> ClusterFile:
    """The cluster of this text."""
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    return load_cluster(path)


def layers(tmp_path: Path, fields: str) -> list[tuple[Level, tuple[int, ...], float]]:
    """The layers of a configuration set with these fields."""
    text = f"configurations:\n  box: {{device: P100, cores: 1, memory: 1GB, {fields}}}\n"
    cluster = load(tmp_path, text + "nodes:\n  n1: box\n").cluster
    found = cluster.configurations["box"].layers
    return [(layer.level, layer.groups, layer.link.bandwidth) for layer in found]


def test_the_shortest_file(tmp_path: Path) -> None:
    file = load(tmp_path, BOX + "nodes:\n  gpu1: box\n")
    assert file.cluster.name == "lab"
    assert file.pools == single_pool({"P100": 8})
    assert file.cluster.configurations == {
        "box": ConfigurationSet(
            name="box",
            device_type="P100",
            generation="P100",
            devices=8,
            device_memory=0,
            layers=(
                Layer(Level.SWITCH, (0xFF,), Link(12e9, 5e-6)),
                Layer(Level.SOCKET, (0xFF,), Link(10e9, 7e-6)),
                Layer(Level.NODE, (0xFF,), Link(8e9, 10e-6)),
            ),
            millicores=16_000,
            memory=64 * 10**9,
            nic=Link(1.25e9, 10e-6),
        )
    }
    assert file.cluster.nodes == (
        Node("gpu1", "box", "r0", "d0", free=0xFF, millicores=16_000, memory=64 * 10**9),
    )
    assert file.cluster.links == {
        Level.RACK: Link(1.25e9, 25e-6),
        Level.DOMAIN: Link(5e9, 50e-6),
        Level.CLUSTER: Link(12.5e9, 100e-6),
    }


def test_a_node_without_devices(tmp_path: Path) -> None:
    text = "configurations:\n  cpu: {cores: 0.5, memory: 1GB, sockets: 2}\nnodes:\n  n1: cpu\n"
    cluster = load(tmp_path, text).cluster
    kind = cluster.configurations["cpu"]
    assert (kind.device_type, kind.devices, kind.layers) == ("", 0, ())
    assert (cluster.nodes[0].free, cluster.nodes[0].millicores) == (0, 500)
    assert cluster.device_types() == ()


@pytest.mark.parametrize(
    ("fields", "groups"),
    [
        ("devices: 4", [(Level.SWITCH, (15,)), (Level.SOCKET, (15,)), (Level.NODE, (15,))]),
        (
            "devices: 4, sockets: 2",
            [(Level.SWITCH, (3, 12)), (Level.SOCKET, (3, 12)), (Level.NODE, (15,))],
        ),
        (
            "devices: 8, sockets: 2, switches: 4",
            [
                (Level.SWITCH, (0x03, 0x0C, 0x30, 0xC0)),
                (Level.SOCKET, (0x0F, 0xF0)),
                (Level.NODE, (0xFF,)),
            ],
        ),
        (
            "devices: 8, switches: [2, 2, 4]",
            [(Level.SWITCH, (0x03, 0x0C, 0xF0)), (Level.SOCKET, (0xFF,)), (Level.NODE, (0xFF,))],
        ),
        (
            "devices: 6, sockets: 2, switches: [1, 1, 2, 2]",
            [(Level.SWITCH, (1, 2, 12, 48)), (Level.SOCKET, (3, 60)), (Level.NODE, (63,))],
        ),
    ],
)
def test_the_tree_inside_a_node(
    tmp_path: Path, fields: str, groups: list[tuple[Level, tuple[int, ...]]]
) -> None:
    assert [(level, bits) for level, bits, _ in layers(tmp_path, fields)] == groups


@pytest.mark.parametrize(
    ("group", "place", "level", "groups"),
    [
        (2, 0, Level.SWITCH, (0x03, 0x0C, 0x30, 0xC0)),
        (4, 1, Level.SOCKET, (0x0F, 0xF0)),
        (8, 2, Level.NODE, (0xFF,)),
    ],
)
def test_nvlink_goes_before_the_layer_that_holds_it(
    tmp_path: Path, group: int, place: int, level: Level, groups: tuple[int, ...]
) -> None:
    tree = f"devices: 8, sockets: 2, switches: 4, nvlink: {{group: {group}, bandwidth: 99GB/s}}"
    found = layers(tmp_path, tree)
    assert len(found) == 4
    assert found[place] == (level, groups, 99e9)
    assert found[-1] == (Level.NODE, (0xFF,), 8e9)


def test_nvlink_over_uneven_switches(tmp_path: Path) -> None:
    found = layers(tmp_path, "devices: 8, switches: [2, 2, 4], nvlink: {group: 4}")
    assert [level for level, _, _ in found] == [Level.SWITCH, Level.SOCKET, Level.SOCKET, Level.NODE]
    assert found[1] == (Level.SOCKET, (0x0F, 0xF0), 40e9)


def test_layers_nest_and_end_with_the_node(tmp_path: Path) -> None:
    for group in (2, 4, 8, 16):
        fields = f"devices: 16, sockets: 2, switches: 8, nvlink: {{group: {group}}}"
        found = layers(tmp_path, fields)
        for (_, inner, _), (_, outer, _) in pairwise(found):
            assert all(any(a & ~b == 0 for b in outer) for a in inner)
        assert found[-1][:2] == (Level.NODE, (0xFFFF,))


def test_links_keep_the_default_of_what_is_left_out(tmp_path: Path) -> None:
    text = (
        "configurations:\n"
        "  box: {device: P100, devices: 2, cores: 1, memory: 1GB, nic: {latency: 1us},\n"
        "        links: {switch: 13GB/s, socket: {latency: 1us}}}\n"
        "nodes:\n  n1: box\n"
        "network: {rack: {bandwidth: 100Gbit/s, latency: 2us}}\n"
    )
    cluster = load(tmp_path, text).cluster
    kind = cluster.configurations["box"]
    assert kind.nic == Link(1.25e9, 1e-6)
    assert [layer.link for layer in kind.layers] == [
        Link(13e9, 5e-6),
        Link(10e9, 1e-6),
        Link(8e9, 10e-6),
    ]
    assert cluster.links[Level.RACK] == Link(12.5e9, 2e-6)


def test_nodes_are_dealt_over_racks_and_domains_in_order(tmp_path: Path) -> None:
    node = '  n[1-8]: {configuration: box, rack: "r[1-4]", domain: "d[1-2]", state: draining}\n'
    nodes = load(tmp_path, BOX + "nodes:\n" + node).cluster.nodes
    assert [n.rack for n in nodes] == ["r1", "r1", "r2", "r2", "r3", "r3", "r4", "r4"]
    assert [n.domain for n in nodes] == ["d1"] * 4 + ["d2"] * 4
    assert {n.state for n in nodes} == {NodeState.DRAINING}


def test_uneven_racks_differ_by_one_at_most(tmp_path: Path) -> None:
    node = '  n[1-5]: {configuration: box, rack: "r[1-2]"}\n'
    nodes = load(tmp_path, BOX + "nodes:\n" + node).cluster.nodes
    assert [n.rack for n in nodes] == ["r1", "r1", "r1", "r2", "r2"]


def test_a_rack_name_of_two_domains_carries_the_domain(tmp_path: Path) -> None:
    text = (
        "nodes:\n"
        "  a: {configuration: box, rack: r1, domain: d1}\n"
        "  b: {configuration: box, rack: r1, domain: d2}\n"
        "  c: {configuration: box, rack: r2, domain: d2}\n"
    )
    nodes = load(tmp_path, BOX + text).cluster.nodes
    assert [n.rack for n in nodes] == ["d1/r1", "d2/r1", "r2"]


def test_pools_have_a_quota_for_every_device_type(tmp_path: Path) -> None:
    text = (
        BOX + "  vox: {device: V100, devices: 4, cores: 1, memory: 1GB}\n"
        "nodes: {a: box, b: vox}\n"
        "pools:\n"
        "  research: {reservation: {P100: 4}, share: 2, limit: {V100: 3}}\n"
        "  vision: {parent: research, reservation: {P100: 4}, share: {V100: 0.5}}\n"
    )
    tree = load(tmp_path, text).pools
    assert tree.pools["research"].quotas == {"P100": Quota(4, 2.0, None), "V100": Quota(0, 2.0, 3)}
    assert tree.pools["vision"].quotas == {"P100": Quota(4, 1.0, None), "V100": Quota(0, 0.5, None)}
    assert tree.leaves() == ("vision",)


def test_a_bare_number_will_do_for_one_device_type(tmp_path: Path) -> None:
    text = BOX + "nodes: {a: box}\npools:\n  p: {reservation: 4, limit: 6}\n  q: {}\n"
    tree = load(tmp_path, text).pools
    assert tree.pools["p"].quotas == {"P100": Quota(4, 1.0, 6)}
    assert tree.pools["q"].quotas == {"P100": Quota()}


@pytest.mark.parametrize(
    "nodes",
    [
        lambda n: f'  gpu[1-{n}]: {{configuration: box, rack: "r[01-{n // 25}]", domain: ib}}\n',
        lambda n: "".join(f"  g{i}: {{configuration: box, rack: r{i // 25}}}\n" for i in range(n)),
    ],
    ids=["a range", "a line each"],
)
def test_the_cost_of_loading_grows_with_the_nodes(tmp_path: Path, nodes: Callable[[int], str]) -> None:
    def cost(count: int) -> int:
        return calls(lambda: load(tmp_path, BOX + "nodes:\n" + nodes(count)))

    assert cost(1000) < 5 * cost(250)
    cluster = load(tmp_path, BOX + "nodes:\n" + nodes(1000)).cluster
    assert len(cluster.nodes) == 1000
    assert len({node.rack for node in cluster.nodes}) == 40
    assert cluster.devices_by_type()["P100"] == 8000
