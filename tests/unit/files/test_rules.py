"""Rules of a cluster file: which nodes count as what, and rules that could never apply."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.files import load_cluster
from muster.files.cluster.classify import OfferError
from muster.files.cluster.cluster_file import ClusterFile, load_listed
from muster.files.cluster.name_pattern import parse_pattern
from muster.files.errors import InputError
from muster.model.cluster import Node
from muster.model.offer import NodeOffer

DGX = """\
configurations:
  dgx1: {device: P100, devices: 8, cores: 40, memory: 512GB}
"""
P100 = NodeOffer("gpu0712", 40_000, 500 * 10**9, devices=8, device_type="P100", engine="slurm")
H100 = NodeOffer("big1", 104_000, 2 * 10**12, devices=8, device_type="H100", engine="ray")


def load(tmp_path: Path, text: str) -> ClusterFile:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return load_cluster(path)


def classified(tmp_path: Path, rules: str, offer: NodeOffer, head: str = DGX) -> Node:
    node, kind = load(tmp_path, f"{head}rules:\n{rules}").classifier.classify(offer)
    assert node.configuration == kind.name
    return node


def error_of(tmp_path: Path, rules: str) -> str:
    with pytest.raises(InputError) as caught:
        load(tmp_path, f"{DGX}rules:\n{rules}")
    return str(caught.value).removeprefix(f"{tmp_path}/c.yaml:")


# --- what nodes count as ---


def test_parts_of_the_name_say_the_rack(tmp_path: Path) -> None:
    rules = "  - {match: gpu??*, configuration: dgx1, rack: 'r{1}'}\n"
    node = classified(tmp_path, rules, P100)
    assert (node.configuration, node.rack, node.domain) == ("dgx1", "r07", "d0")
    assert (node.free, node.millicores, node.memory) == (255, 40_000, 512 * 10**9)


def test_labels_say_rack_and_domain(tmp_path: Path) -> None:
    rules = "  - {rack: '{label.topology/rack}', domain: 'pod-{label.pod}'}\n"
    offer = replace(H100, labels={"topology/rack": "R 17", "pod": "b"})
    node = classified(tmp_path, rules, offer)
    assert (node.rack, node.domain) == ("pod-b/R-17", "pod-b"), "a rack is in one domain"
    unlabelled = classified(tmp_path, rules, replace(H100, rack="switch3"))
    assert (unlabelled.rack, unlabelled.domain) == ("switch3", "d0")


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ("{name: 'big[1-3]'}", True),
        ("{name: 'big[2-3]'}", False),
        ("big1", True),
        ("{device: H100, devices: 4..8}", True),
        ("{device: H100, devices: 4}", False),
        ("{engine: ray}", True),
        ("{engine: slurm}", False),
        ("{label: {zone: 'a*'}}", True),
        ("{label: {zone: b}}", False),
        ("{label: {row: '*'}}", False),
        ("{rack: 'switch*'}", True),
        ("{}", True),
    ],
)
def test_a_rule_is_for_nodes_of_which_everything_it_says_is_so(
    tmp_path: Path, match: str, fits: bool
) -> None:
    offer = replace(H100, labels={"zone": "a7"}, rack="switch2")
    node = classified(tmp_path, f"  - {{match: {match}, rack: here}}\n", offer)
    assert node.rack == ("here" if fits else "switch2")


def test_the_first_rule_that_matches_decides(tmp_path: Path) -> None:
    rules = "  - {match: big1, rack: one}\n  - {match: {device: H100}, rack: two}\n"
    assert classified(tmp_path, rules, H100).rack == "one"
    assert classified(tmp_path, rules, replace(H100, name="big2")).rack == "two"


def test_a_node_that_no_rule_matches_counts_as_what_it_is(tmp_path: Path) -> None:
    node = classified(tmp_path, "  - {match: gpu*, configuration: dgx1}\n", H100)
    assert node.configuration.startswith("8xH100-")


def test_a_rule_may_know_the_network_card(tmp_path: Path) -> None:
    file = load(tmp_path, "rules:\n  - {match: {device: H100}, nic: 400Gbit/s}\n")
    _, kind = file.classifier.classify(H100)
    assert kind.nic.bandwidth == 50e9
    _, other = file.classifier.classify(replace(H100, device_type="H200"))
    assert other.nic.bandwidth == 1.25e9


def test_a_node_with_other_devices_than_its_rule_says_is_refused(tmp_path: Path) -> None:
    rules = "  - {match: login*}\n  - {match: gpu*, configuration: dgx1}\n"
    with pytest.raises(OfferError) as refused:
        classified(tmp_path, rules, replace(P100, name="gpu7", devices=4))
    assert str(refused.value) == ("node 'gpu7' offers 4 P100, but rule 2 says dgx1, which has 8 P100")
    with pytest.raises(OfferError, match="offers no devices, but rule 2 says dgx1"):
        classified(tmp_path, rules, NodeOffer("gpu8", 40_000, 10**12))


def test_a_node_with_less_than_its_configuration_is_used_for_what_it_has(tmp_path: Path) -> None:
    rules = "  - {match: gpu*, configuration: dgx1}\n"
    node = classified(tmp_path, rules, replace(P100, millicores=32_000, memory=256 * 2**30))
    assert node.configuration.startswith("dgx1-")
    assert (node.millicores, node.memory) == (32_000, 256 * 2**30)


def test_without_rules_only_listed_nodes_may_join(tmp_path: Path) -> None:
    file = load(tmp_path, f"{DGX}nodes:\n  gpu[01-16]: {{configuration: dgx1, rack: 'r[1-4]'}}\n")
    assert not file.cluster.open
    node, kind = file.classifier.classify(replace(P100, name="gpu05"))
    assert (node.rack, kind.name, node.offer is not None) == ("r2", "dgx1", True)
    with pytest.raises(OfferError) as refused:
        file.classifier.classify(replace(P100, name="gpu17"))
    assert str(refused.value) == (
        "node 'gpu17' is not in the cluster file; add it under nodes, or add rules for nodes that join"
    )
    with pytest.raises(OfferError, match="offers 4 P100, but the cluster file says dgx1"):
        file.classifier.classify(replace(P100, name="gpu05", devices=4))


def test_listed_nodes_come_before_rules(tmp_path: Path) -> None:
    text = f"{DGX}nodes:\n  gpu1: {{configuration: dgx1, rack: r9}}\nrules:\n  - {{rack: other}}\n"
    file = load(tmp_path, text)
    assert file.cluster.open
    assert file.classifier.classify(replace(P100, name="gpu1"))[0].rack == "r9"
    assert file.classifier.classify(replace(P100, name="gpu2"))[0].rack == "other"


def test_rules_alone_are_a_cluster_of_nothing_yet(tmp_path: Path) -> None:
    file = load(tmp_path, "rules:\n  - {}\n")
    assert (file.cluster.nodes, file.cluster.open) == ((), True)
    with pytest.raises(InputError, match=r"c\.yaml: lists no nodes; add nodes, or bring"):
        load_listed(tmp_path / "c.yaml")


# --- rules that cannot be right ---

PATTERN = "write for example gpu[001-064] or gpu*"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (
            "  - {match: gpu*, configuration: dgx}\n",
            "4: rules[0].configuration: 'dgx' is not a configuration (did you mean 'dgx1'?)",
        ),
        (
            "  - {match: {device: V100}, configuration: dgx1}\n",
            "4: rules[0].match.device: fits no node: dgx1 has 8 P100, not V100",
        ),
        (
            "  - {match: {devices: 1..4}, configuration: dgx1}\n",
            "4: rules[0].match.devices: fits no node: dgx1 has 8 P100",
        ),
        (
            "  - {match: {device: V100, devices: 0}}\n",
            "4: rules[0].match: fits no node: none has 0 devices of type V100",
        ),
        (
            "  - {configuration: dgx1, nic: 1GB/s}\n",
            "4: rules[0].nic: belongs to configuration dgx1, which the rule names",
        ),
        (
            "  - {match: gpu*}\n  - {match: 'gpu[01-16]', rack: r1}\n",
            "5: rules[1].match: never applies: rule 1 matches all of its nodes; put it before that",
        ),
        (
            "  - {rack: r1}\n  - {match: {device: P100}, rack: r1}\n",
            "5: rules[1].match: never applies: rule 1 matches all of its nodes; put it before that",
        ),
        (
            "  - {match: gpu*, rack: 'r{2}'}\n",
            "4: rules[0].rack: uses part 2 of the name, but match.name has 1; "
            "a range, a * or a run of ? is a part",
        ),
        (
            "  - {rack: 'r{row}'}\n",
            "4: rules[0].rack: '{row}' is unknown; "
            "use {1} (a part of match.name), {name}, {rack}, {engine} or {label.KEY}",
        ),
        (
            "  - {match: {nme: gpu*}}\n",
            "4: rules[0].match.nme: unknown field (did you mean 'name'?)",
        ),
        (
            "  - {match: 'gpu[4-1]'}\n",
            "4: rules[0].match: 'gpu[4-1]' runs backwards from 4 to 1; "
            "write for example gpu[001-064] or gpu[1-3,7]",
        ),
        ("  - {match: 'a b'}\n", f"4: rules[0].match: 'a b' is not a pattern of names; {PATTERN}"),
        (
            "  []\n",
            "3: rules: must have at least one rule; write [{}] to take every node by its hardware",
        ),
    ],
)
def test_a_rule_that_cannot_be_right_is_one_line(tmp_path: Path, rules: str, message: str) -> None:
    found = error_of(tmp_path, rules)
    assert found == message


def test_rules_that_overlap_only_in_part_are_fine(tmp_path: Path) -> None:
    rules = (
        "  - {match: {name: 'gpu[1-4]', device: H100}}\n"
        "  - {match: 'gpu[1-4]'}\n"
        "  - {match: {label: {zone: 'a*'}}}\n"
        "  - {match: {label: {zone: '*'}}}\n"
        "  - {match: {devices: 4..8}}\n"
        "  - {match: {devices: 1..8}}\n"
        "  - {}\n"
    )
    assert len(load(tmp_path, f"{DGX}rules:\n{rules}").classifier.rules) == 7


letters = st.text("ab1", max_size=4)
pieces = st.sampled_from(["*", "?", "??", "[1-3]", "[01-04]", "a", "b", "1"])
patterns = st.lists(pieces, min_size=1, max_size=4).map("".join)


@given(patterns, patterns, st.lists(st.text("ab0123", max_size=6), max_size=40))
def test_a_pattern_that_covers_another_fits_all_of_its_names(
    wide: str, narrow: str, names: list[str]
) -> None:
    outer, inner = parse_pattern(wide), parse_pattern(narrow)
    if outer.covers(inner):
        for name in names:
            assert inner.split(name) is None or outer.split(name) is not None


@given(patterns, letters)
def test_a_pattern_has_as_many_parts_as_it_says(text: str, name: str) -> None:
    pattern = parse_pattern(text)
    parts = pattern.split(name)
    assert parts is None or len(parts) == pattern.parts


# --- pools of clusters that grow ---


def test_reservations_and_limits_in_parts(tmp_path: Path) -> None:
    text = f"{DGX}nodes: {{'n[1-4]': dgx1}}\npools:\n  a: {{reservation: 25%, limit: 50%}}\n  b: {{}}\n"
    quota = load(tmp_path, text).pools.pools["a"].quota("P100")
    assert (quota.reservation, quota.limit) == (8, 16)
    assert (quota.reservation_part, quota.limit_part) == (0.25, 0.5)


def test_where_nodes_join_parts_are_of_every_type_and_types_need_not_be_there(tmp_path: Path) -> None:
    text = (
        "rules: [{}]\npools:\n"
        "  a: {reservation: 25%, share: 2}\n  b: {limit: {H100: 16}, reservation: {H100: 50%}}\n"
    )
    tree = load(tmp_path, text).pools
    assert tree.pools["a"].quota("B200").reservation_part == 0.25
    assert tree.pools["a"].quota("B200").share == 2
    grown = tree.sized({"H100": 40})
    assert grown.pools["a"].quota("H100").reservation == 10
    assert (grown.pools["b"].quota("H100").reservation, grown.pools["b"].quota("H100").limit) == (
        16,
        16,
    )


def test_without_pools_one_has_all_that_joins(tmp_path: Path) -> None:
    tree = load(tmp_path, "rules: [{}]\n").pools.sized({"H100": 40})
    assert tree.pools["default"].quota("H100").reservation == 40


@pytest.mark.parametrize(
    ("pools", "problem"),
    [
        ("a: {reservation: 60%}\n  b: {reservation: 50%}", "pools: reserve 110% of every device type"),
        ("a: {reservation: 120%}", "pools.a.reservation: must be at most 100%, not '120%'"),
        ("a: {reservation: 50%, limit: 20%}", "limit 20% is below reservation 50%"),
        ("a: {limit: 5}", "a bare number is ambiguous: the cluster has no devices"),
    ],
)
def test_parts_that_cannot_be_are_one_line(tmp_path: Path, pools: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, f"rules: [{{}}]\npools:\n  {pools}\n")
    assert problem in str(caught.value)
