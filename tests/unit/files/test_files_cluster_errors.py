"""Cluster files that are wrong: one clear line each."""

from pathlib import Path

import pytest

from muster.files import load_cluster
from muster.files.errors import InputError

BASE = """configurations:
  box: {device: P100, devices: 8, cores: 16, memory: 64GB}
  cpu: {cores: 8, memory: 32GB}
nodes:
  gpu[1-4]: box
"""
TWO_TYPES = """configurations:
  box: {device: P100, devices: 8, cores: 16, memory: 64GB}
  vox: {device: V100, devices: 4, cores: 16, memory: 64GB}
nodes:
  p1: box
  v1: vox
"""
NAME_RULE = "use up to 63 letters, digits, '.', '-' and '_', for example lab-1"


def error_of(tmp_path: Path, text: str) -> str:
    """The line of a refused cluster file, without its directory."""
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_cluster(path)
    line = str(caught.value).removeprefix(f"{tmp_path}/")
    assert line.isprintable()
    return line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", "c.yaml:1: must be a mapping of fields to values"),
        ("hello\n", "c.yaml:1: must be a mapping of fields to values"),
        (BASE + "pool: {}\n", "c.yaml:6: pool: unknown field (did you mean 'pools'?)"),
        (
            BASE + "colour: red\n",
            "c.yaml:6: colour: unknown field; choose from: name, configurations, nodes, rules, "
            "network, pools, planners",
        ),
        (BASE + "name: my lab\n", f"c.yaml:6: name: 'my lab' is not a name; {NAME_RULE}"),
        (
            BASE + "network: {rak: 1GB/s}\n",
            "c.yaml:6: network.rak: unknown field (did you mean 'rack'?)",
        ),
        (
            "configurations:\n  box: {cores: 1, memory: 1GB}\n",
            "c.yaml:1: nodes: is missing; write for example {'gpu[1-4]': box}",
        ),
        (
            "nodes:\n  a: box\n",
            "c.yaml:1: configurations: is missing; write for example "
            "{box: {device: P100, devices: 4, cores: 16, memory: 64GB}}",
        ),
        (
            "configurations: {}\nnodes: {a: b}\n",
            "c.yaml:1: configurations: must name at least one configuration",
        ),
        (
            "configurations:\n  my box: {cores: 1, memory: 1GB}\nnodes: {a: b}\n",
            f"c.yaml:2: configurations.my box: 'my box' is not a name; {NAME_RULE}",
        ),
    ],
)
def test_the_whole_file(tmp_path: Path, text: str, message: str) -> None:
    assert error_of(tmp_path, text) == message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("devcies: 8", "devcies: unknown field (did you mean 'devices'?)"),
        ("devices: -8", "devices: must be at least 0, not -8"),
        ("devices: 17", "devices: must be at most 16, not 17"),
        ("devices: true", "devices: 'true' is not a whole number; write for example 4"),
        ("devices: .nan", "devices: '.nan' is not a whole number; write for example 4"),
        ("devices: 1.5", "devices: '1.5' is not a whole number; write for example 4"),
        ("devices: [8]", "devices: must be one value, not a list"),
        ("devices: {a: 8}", "devices: must be one value, not a mapping"),
        ("devices: 0", "devices: must be at least 1 with a device type"),
        ("sockets: 2", "devices: is missing; write for example 8"),
        (
            "devices: 8, device_memory: 16",
            "device_memory: '16' has no unit; write for example 24GB or 512MiB",
        ),
        (
            "devices: 8, sockets: 3",
            "sockets: 8 devices cannot be divided evenly over 3 sockets; "
            "list the devices under each switch, for example [2, 2, 4]",
        ),
        (
            "devices: 8, switches: 3",
            "switches: 8 devices cannot be divided evenly over 3 switches; "
            "list the devices under each switch, for example [2, 2, 4]",
        ),
        (
            "devices: 8, sockets: 2, switches: 1",
            "switches: the number of switches, 1, is not a multiple of the sockets, 2",
        ),
        (
            "devices: 8, sockets: 2, switches: [2, 2, 4]",
            "switches: the number of switches, 3, is not a multiple of the sockets, 2",
        ),
        ("devices: 8, switches: [2, 2]", "switches: the list adds up to 4 devices, but the node has 8"),
        ("devices: 8, switches: []", "switches: the list adds up to 0 devices, but the node has 8"),
        ("devices: 8, switches: [8, 0]", "switches: must be at least 1, not 0"),
        ("devices: 8, nvlink: {}", "nvlink.group: is missing; write for example 4"),
        ("devices: 8, nvlink: 4", "nvlink: must be a mapping of fields to values"),
        ("devices: 8, nvlink: {group: 1}", "nvlink.group: must be at least 2, not 1"),
        (
            "devices: 8, nvlink: {group: 3}",
            "nvlink.group: 8 devices cannot be divided evenly into groups of 3",
        ),
        (
            "devices: 12, switches: 3, nvlink: {group: 6}",
            "nvlink.group: groups of 6 devices cut through the switch of devices 4, 5, 6, 7; "
            "make groups that lie inside every switch or hold whole ones",
        ),
        (
            "devices: 12, sockets: 2, switches: [2, 2, 2, 6], nvlink: {group: 4}",
            "nvlink.group: groups of 4 devices cut through the switch of devices 6, 7, 8, 9, 10, 11; "
            "make groups that lie inside every switch or hold whole ones",
        ),
        (
            "devices: 8, switches: [1, 1, 4, 2], nvlink: {group: 2}",
            "nvlink.group: groups of 2 devices cut through the switch of devices 2, 3, 4, 5; "
            "make groups that lie inside every switch or hold whole ones",
        ),
        (
            "devices: 8, links: {switch: 12}",
            "links.switch: '12' has no unit; write for example 16GB/s or 100Gbit/s",
        ),
        (
            "devices: 8, links: {switch: {bandwith: 1GB/s}}",
            "links.switch.bandwith: unknown field (did you mean 'bandwidth'?)",
        ),
        (
            "devices: 8, nic: 10Gb/s",
            "nic: '10Gb/s' is not a rate; write for example 16GB/s or 100Gbit/s "
            "(did you mean '10Gbit/s'?)",
        ),
    ],
)
def test_a_configuration_set(tmp_path: Path, fields: str, message: str) -> None:
    box = f"{{device: P100, cores: 1, memory: 1GB, {fields}}}"
    text = f"configurations:\n  box: {box}\nnodes: {{a: box}}\n"
    assert error_of(tmp_path, text) == f"c.yaml:2: configurations.box.{message}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("cores: 1, memory: 1GB, devices: 4", "device: is missing; write for example P100"),
        ("cores: 1, memory: 1GB, nvlink: {group: 2}", "nvlink: needs a node with devices"),
        ("cores: 1, memory: 1GB, switches: 2", "switches: needs a node with devices"),
        ("cores: 1", "memory: is missing; write for example 512GB"),
        ("cores: 0, memory: 1GB", "cores: must be above 0, not '0'"),
        ("cores: 1, memory: 0GB", "memory: must be above 0, not '0GB'"),
        (
            "cores: .inf, memory: 1GB",
            "cores: '.inf' is not a number of cores; write for example 4 or 0.5",
        ),
        (
            "cores: -1, memory: 64",
            "cores: '-1' is not a number of cores; write for example 4 or 0.5 (and 1 more)",
        ),
    ],
)
def test_a_configuration_set_without_devices(tmp_path: Path, fields: str, message: str) -> None:
    text = f"configurations:\n  box: {{{fields}}}\nnodes: {{a: box}}\n"
    assert error_of(tmp_path, text) == f"c.yaml:2: configurations.box.{message}"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("{}", "4: nodes: must name at least one node; write for example gpu[1-4]: box"),
        ("[a, b]", "4: nodes: must be a mapping of names to values"),
        ("\n  a: 5", "5: nodes.a.configuration: '5' is not a configuration; choose from: box, cpu"),
        ("\n  a: bxo", "5: nodes.a.configuration: 'bxo' is not a configuration (did you mean 'box'?)"),
        (
            "\n  a: {configuration: BOX}",
            "5: nodes.a.configuration: 'BOX' is not a configuration (did you mean 'box'?)",
        ),
        ("\n  a: {rack: r1}", "5: nodes.a.configuration: is missing; write for example dgx1"),
        (
            "\n  a: {configuration: box, state: drainin}",
            "5: nodes.a.state: 'drainin' is not a state (did you mean 'draining'?)",
        ),
        (
            "\n  a: {configuration: box, state: broken}",
            "5: nodes.a.state: 'broken' is not a state; choose from: up, draining, lost",
        ),
        ("\n  a b: box", f"5: nodes.a b: 'a b' is not a name; {NAME_RULE}"),
        ("\n  a: box\n  a: box", "6: nodes.a: is given twice (first on line 5)"),
        (
            "\n  g[1-3]: box\n  c: cpu\n  g[3-4]: box",
            "7: nodes.g[3-4]: node 'g3' is given twice (first as g[1-3] on line 5)",
        ),
        (
            "\n  g[2-1]: box",
            "5: nodes.g[2-1]: 'g[2-1]' runs backwards from 2 to 1; "
            "write for example gpu[001-064] or gpu[1-3,7]",
        ),
        (
            "\n  g[1-200000]: box",
            "5: nodes.g[1-200000]: 'g[1-200000]' expands to 200000 names, more than 100000",
        ),
        (
            "\n  g[1-99999]: box\n  h[1-2]: box",
            "6: nodes.h[1-2]: expands to more than 100000 nodes",
        ),
        (
            '\n  g[1-2]: {configuration: box, rack: "r[1-3]"}',
            "5: nodes.g[1-2].rack: 'r[1-3]' expands to 3 names, more than the nodes (2)",
        ),
        (
            '\n  g[1-6]: {configuration: box, rack: "r[1-3]", domain: "d[1-2]"}',
            "5: nodes.g[1-6].rack: 3 racks cannot be divided evenly over 2 domains",
        ),
    ],
)
def test_nodes(tmp_path: Path, nodes: str, message: str) -> None:
    head = BASE.partition("nodes:")[0]
    assert error_of(tmp_path, f"{head}nodes: {nodes}\n") == f"c.yaml:{message}"


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        ("{}", "6: pools: must name at least one pool; remove it to have one pool, 'default'"),
        ("", "6: pools: has no value; add one or remove the line"),
        ("\n  a:", "7: pools.a: has no value; add one or remove the line"),
        ("\n  cluster: {}", "7: pools.cluster: the name 'cluster' is reserved for the whole cluster"),
        ("\n  a b: {}", f"7: pools.a b: 'a b' is not a name; {NAME_RULE}"),
        (
            "\n  a: {weight: 2}",
            "7: pools.a.weight: unknown field; choose from: parent, reservation, share, limit, allow, "
            "max_priority, devices_per_user, policy, budget, aim",
        ),
        (
            "\n  a: {aim: makespam}",
            "7: pools.a.aim: 'makespam' is not a policy's aim (did you mean 'makespan'?)",
        ),
        (
            "\n  a: {policy: fifo, aim: fair}",
            "7: pools.a.aim: pool 'a': fifo has no aim 'fair', nor any other",
        ),
        (
            "\n  a: {policy: fifo}\n  b: {parent: a}\n  c: {parent: a, aim: mean}",
            "9: pools.c.aim: pool 'c': fifo has no aim 'mean', nor any other",
        ),
        (
            "\n  a: {policy: muster:makespan=2}",
            "7: pools.a.policy: 'muster:makespan=2': makespan must be a number from 0 to 1",
        ),
        (
            "\n  a: {}\n  b: {parent: c}\n  c: {parent: b}",
            "8: pools.b: pools form a cycle: b -> c -> b",
        ),
        ("\n  a: {parent: a}", "7: pools.a: pools form a cycle: a -> a"),
        (
            "\n  research: {}\n  b: {parent: reserch}",
            "8: pools.b.parent: 'reserch' is not a pool (did you mean 'research'?)",
        ),
        ("\n  a: {}\n  b: {share: 0}", "8: pools.b: P100: share must be above 0, not 0"),
        (
            "\n  a: {share: -1}",
            "7: pools.a.share: '-1' is not a number of 0 or more; write for example 2 or 0.5",
        ),
        (
            "\n  a: {share: .nan}",
            "7: pools.a.share: '.nan' is not a number of 0 or more; write for example 2 or 0.5",
        ),
        ("\n  a: {reservation: -4}", "7: pools.a.reservation: must be at least 0, not -4"),
        ("\n  a: {reservation: {P100: -4}}", "7: pools.a.reservation.P100: must be at least 0, not -4"),
        (
            "\n  a:\n    reservation:\n      P10: 4",
            "9: pools.a.reservation.P10: 'P10' is not a device type of this cluster "
            "(did you mean 'P100'?)",
        ),
        ("\n  a: {reservation: 5, limit: 3}", "7: pools.a: P100: limit 3 is below reservation 5"),
        (
            "\n  a: {reservation: 5}\n  b: {parent: a, reservation: 6}",
            "7: pools.a: P100: its pools reserve 6 together, it reserves only 5",
        ),
        (
            "\n  a: {}\n  b: {parent: a, reservation: 6}",
            "7: pools.a: P100: its pools reserve 6 together, it reserves only 0",
        ),
        (
            "\n  a: {reservation: 20}\n  b: {reservation: 20}",
            "6: pools: reserve 40 P100 in total, but the cluster has 32",
        ),
    ],
)
def test_pools(tmp_path: Path, pools: str, message: str) -> None:
    assert error_of(tmp_path, f"{BASE}pools: {pools}\n") == f"c.yaml:{message}"


def test_a_bare_number_is_not_enough_for_two_device_types(tmp_path: Path) -> None:
    assert error_of(tmp_path, TWO_TYPES + "pools:\n  a: {limit: 4}\n") == (
        "c.yaml:8: pools.a.limit: a bare number is ambiguous: the cluster has 2 device types; "
        "give one for each, for example {P100: 4, V100: 4}, or a part of all, such as 25%"
    )


def test_a_cluster_without_devices_has_nothing_to_reserve(tmp_path: Path) -> None:
    text = "configurations:\n  cpu: {cores: 1, memory: 1GB}\nnodes: {a: cpu}\npools:\n  a: {limit: 4}\n"
    assert error_of(tmp_path, text) == (
        "c.yaml:5: pools.a.limit: a bare number is ambiguous: the cluster has no devices"
    )


def test_pools_nested_too_deep_and_too_many(tmp_path: Path) -> None:
    chain = "".join(f"  p{i}: {{parent: p{i - 1}}}\n" for i in range(1, 900))
    assert error_of(tmp_path, BASE + "pools:\n  p0: {}\n" + chain) == (
        "c.yaml:39: pools.p32: is nested deeper than 32 pools"
    )
    many = "".join(f"  p{i}: {{}}\n" for i in range(1001))
    assert error_of(tmp_path, BASE + "pools:\n" + many) == (
        "c.yaml:6: pools: has 1001 pools, more than 1000"
    )


def test_the_file_name_must_do_where_no_name_is_given(tmp_path: Path) -> None:
    path = tmp_path / "my lab.yaml"
    path.write_text(BASE)
    with pytest.raises(InputError) as caught:
        load_cluster(path)
    assert str(caught.value) == f"{path}:1: name: 'my lab' is not a name; {NAME_RULE}"
