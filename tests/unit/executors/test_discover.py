"""The cluster that a machine is."""

from dataclasses import dataclass, field

import pytest

from muster.executors.discover import (
    Grid,
    Machine,
    discover,
    gpu_cluster,
    parse_topology,
    virtual_cluster,
)
from muster.executors.gpus import Gpus, MixedError, find_gpus, type_of
from muster.files.errors import InputError
from muster.model.topology import Level
from muster.perf.devices import rate_of_device

MACHINE = Machine(millicores=64_000, memory=512 * 10**9)


class NvmlError(Exception):
    """What NVML says when it cannot."""


@dataclass
class Nvml:
    """NVML of a machine that is not here: GPUs by name, groups as lists of their numbers."""

    names: list[str]
    switches: list[list[int]] = field(default_factory=list)
    sockets: list[list[int]] = field(default_factory=list)
    nvlink: list[list[int]] = field(default_factory=list)
    links: int = 0
    driver: bool = True
    NVMLError = NvmlError
    NVML_TOPOLOGY_MULTIPLE = 20
    NVML_TOPOLOGY_NODE = 40
    NVML_P2P_CAPS_INDEX_NVLINK = 2
    NVML_P2P_STATUS_OK = 0
    open: int = 0

    def nvmlInit(self) -> None:  # noqa: N802
        if not self.driver:
            raise NvmlError
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.names)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetName(self, gpu: int) -> str | bytes:  # noqa: N802
        return self.names[gpu].encode() if gpu % 2 else self.names[gpu]

    def nvmlDeviceGetMemoryInfo(self, gpu: int) -> object:  # noqa: N802
        return type("Memory", (), {"total": 80 * 2**30 - gpu})

    def nvmlDeviceGetTopologyCommonAncestor(self, a: int, b: int) -> int:  # noqa: N802
        if not self.sockets:
            raise NvmlError
        if any(a in group and b in group for group in self.switches):
            return 20
        return 40 if any(a in group and b in group for group in self.sockets) else 50

    def nvmlDeviceGetP2PStatus(self, a: int, b: int, what: int) -> int:  # noqa: N802
        return 0 if any(a in group and b in group for group in self.nvlink) else 5

    def nvmlDeviceGetNvLinkState(self, gpu: int, link: int) -> int:  # noqa: N802
        if link >= self.links:
            raise NvmlError
        return 1

    def nvmlDeviceGetNvLinkVersion(self, gpu: int, link: int) -> int:  # noqa: N802
        return 4


@pytest.mark.parametrize(
    ("text", "grid"),
    [
        ("8", Grid(1, 1, 8)),
        ("2x4", Grid(2, 1, 4)),
        ("2X2x4", Grid(2, 2, 4)),
        ("2 × 4", Grid(2, 1, 4)),
    ],
)
def test_a_topology_is_nodes_sockets_devices(text: str, grid: Grid) -> None:
    assert parse_topology(text) == grid


@pytest.mark.parametrize("text", ["", "x", "2x", "eight", "1x2x3x4", "-1", "0", "2x0", "1.5"])
def test_other_words_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError, match=r"topology"):
        parse_topology(text)


def test_virtual_nodes_share_the_machine() -> None:
    cluster = virtual_cluster(Grid(2, 2, 4), MACHINE)
    assert [node.name for node in cluster.nodes] == ["n0", "n1"]
    (kind,) = cluster.configurations.values()
    assert (kind.device_type, kind.devices) == ("cpu", 8)
    assert (kind.millicores, kind.memory) == (32_000, 256 * 10**9)
    assert kind.device_memory == 32 * 10**9
    assert kind.level_of(0b1111) is Level.SWITCH
    assert kind.level_of(0b11111) is Level.NODE
    assert all(node.free == 0b11111111 for node in cluster.nodes)
    assert rate_of_device(kind) is not None


def test_asked_for_devices_are_made_whatever_there_is() -> None:
    assert [node.free.bit_count() for node in discover(devices=8).nodes] == [8]
    assert [node.free.bit_count() for node in discover(topology="2x4").nodes] == [4, 4]


@pytest.mark.parametrize(
    ("devices", "topology", "words"),
    [
        (32, None, r"at most 16 devices, not 32; .* for example 2x16"),
        (None, "1x4x8", r"at most 16 devices, not 32"),
        (0, None, r"at least 1"),
        (None, "0x4", r"at least 1"),
        (4, "2x4", r"does not have 4 devices"),
        (None, "5000x1", r"too many"),
    ],
)
def test_what_cannot_be_is_refused_with_what_could(
    devices: int | None, topology: str | None, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        discover(devices, topology)


def test_a_machine_without_a_driver_has_no_gpus() -> None:
    assert find_gpus(Nvml([], driver=False)) is None
    assert find_gpus(Nvml([])) is None


def test_gpus_are_found_with_their_tree() -> None:
    nvml = Nvml(
        ["NVIDIA H100 80GB HBM3"] * 8,
        switches=[[0, 1], [2, 3], [4, 5], [6, 7]],
        sockets=[[0, 1, 2, 3], [4, 5, 6, 7]],
        nvlink=[[*range(8)]],
        links=18,
    )
    gpus = find_gpus(nvml)
    assert gpus == Gpus("H100", 80 * 2**30 - 7, 8, (4, 4), (2, 2, 2, 2), 8, 450)
    assert nvml.open == 0
    assert gpus is not None
    cluster = gpu_cluster(gpus, MACHINE)
    (kind,) = cluster.configurations.values()
    assert (kind.name, kind.device_type, kind.devices) == ("H100", "H100", 8)
    assert [layer.level for layer in kind.tree] == [Level.SWITCH, Level.SOCKET, Level.NODE]
    (nvlink,) = kind.shortcuts
    assert (nvlink.groups, nvlink.link.bandwidth) == ((255,), 450e9)
    assert kind.level_of(0b11) is Level.SWITCH
    assert kind.level_of(0b1111) is Level.SOCKET


def test_where_nvml_says_nothing_of_the_tree_it_is_flat() -> None:
    gpus = find_gpus(Nvml(["Tesla T4"] * 3))
    assert gpus == Gpus("T4", 80 * 2**30 - 2, 3, (3,), (3,))


def test_groups_that_are_no_neighbours_or_uneven_give_a_plainer_tree() -> None:
    crossed = Nvml(["Tesla T4"] * 4, switches=[[0, 2], [1, 3]], sockets=[[0, 2], [1, 3]])
    gpus = find_gpus(crossed)
    assert gpus is not None
    assert gpus.sockets == (4,)
    uneven = Gpus("T4", 10**9, 3, sockets=(2, 1), switches=(1, 1, 1), nvlink=None)
    (kind,) = gpu_cluster(uneven, MACHINE).configurations.values()
    assert kind.level_of(0b111) is Level.SWITCH


def test_gpus_of_several_types_are_refused() -> None:
    with pytest.raises(MixedError, match="A100, T4"):
        find_gpus(Nvml(["Tesla T4", "NVIDIA A100-SXM4-80GB"]))


def test_more_gpus_than_a_node_may_have_are_refused() -> None:
    with pytest.raises(InputError, match="17 GPUs"):
        gpu_cluster(Gpus("T4", 1, 17, (17,), (17,)), MACHINE)


@pytest.mark.parametrize(
    ("name", "device_type"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX2080TI"),
        ("NVIDIA GeForce RTX 3090", "RTX3090"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce GTX 1080", "GTX-1080"),
        ("(?)", "gpu"),
    ],
)
def test_a_products_name_gives_the_device_type(name: str, device_type: str) -> None:
    assert type_of(name) == device_type
