"""What nodes that join count as."""

from dataclasses import replace

import pytest

from muster.files.cluster.classify import Classifier, OfferError
from muster.model.offer import NodeOffer
from muster.model.topology import Level

DGX = NodeOffer(
    "gpu7",
    millicores=104_000,
    memory=2_000 * 10**9,
    devices=8,
    device_type="H100",
    device_memory=80 * 2**30,
    sockets=2,
    switches=(2, 2, 2, 2),
    nvlink=8,
    nvlink_rate=450,
    bandwidth=50 * 10**9,
)


def test_without_rules_the_hardware_describes_a_node() -> None:
    node, kind = Classifier().classify(DGX)
    assert kind.name.startswith("8xH100-")
    assert (kind.device_type, kind.devices, kind.millicores) == ("H100", 8, 104_000)
    assert kind.nic.bandwidth == 50e9
    assert kind.level_of(0b11) is Level.SWITCH
    assert [layer.link.bandwidth for layer in kind.shortcuts] == [450e9]
    assert (node.name, node.configuration, node.rack, node.domain) == ("gpu7", kind.name, "r0", "d0")
    assert (node.free, node.offer) == (255, DGX)


def test_equal_hardware_is_one_configuration_set_and_other_hardware_another() -> None:
    classify = Classifier().classify
    _, kind = classify(DGX)
    _, twin = classify(replace(DGX, name="gpu8", memory=DGX.memory - 5 * 10**6, rack="r9"))
    assert twin == kind
    others = {
        classify(replace(DGX, **change))[1].name
        for change in (
            {"millicores": 96_000},
            {"memory": 10**12},
            {"nvlink": 4},
            {"bandwidth": 10**9},
            {"devices": 4, "switches": (), "nvlink": 0},
        )
    }
    assert len(others) == 5
    assert kind.name not in others


def test_an_engines_rack_becomes_a_name() -> None:
    node, _ = Classifier().classify(replace(DGX, rack="/row 3/switch-7"))
    assert node.rack == "row-3-switch-7"


def test_virtual_devices_are_as_fast_as_their_cores() -> None:
    offer = NodeOffer("n1", 8_000, 16 * 10**9, devices=4, device_type="H100", virtual=True)
    _, kind = Classifier().classify(offer)
    assert (kind.device_type, kind.devices, kind.device_rate) == ("H100", 4, 80e9)
    assert 3 * 10**9 < kind.device_memory <= 4 * 10**9


def test_a_node_without_devices_has_cores_alone() -> None:
    node, kind = Classifier().classify(NodeOffer("login", 64_000, 10**11))
    assert (kind.devices, node.free) == (0, 0)
    assert kind.name.startswith("64c-")


def test_groups_that_do_not_nest_give_a_simpler_tree() -> None:
    _, kind = Classifier().classify(replace(DGX, switches=(3, 5), nvlink=4))
    assert kind.level_of(0b11111111) is Level.NODE


@pytest.mark.parametrize(
    ("offer", "words"),
    [
        (replace(DGX, devices=20), "node 'gpu7' offers 20 devices; a node has at most 16"),
        (replace(DGX, name="a b"), "node 'a b' cannot join: 'a b' is not a name"),
        (replace(DGX, device_type="x\ny"), "is not a name"),
        (replace(DGX, millicores=0), "cores: must be above 0"),
        (replace(DGX, memory=-1), "memory"),
        (replace(DGX, devices=-3), "devices"),
        (replace(DGX, bandwidth=-1), "nic"),
    ],
)
def test_what_cannot_be_described_is_refused_in_one_line(offer: NodeOffer, words: str) -> None:
    with pytest.raises(OfferError) as refused:
        Classifier().classify(offer)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
