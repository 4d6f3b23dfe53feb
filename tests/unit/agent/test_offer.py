"""What a node offers, and how it is: of machines with GPUs that are not here, and of this one."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster.agent.node import machine, offer
from muster.agent.node.devices import DeviceReading, ask_nvml
from muster.agent.node.health import HealthProbe
from muster.agent.node.kernel_log import KernelLog
from muster.agent.node.offer import describe, visible
from muster.agent.options import AgentError, AgentOptions
from muster.executors.gpus import Gpus, find_gpus
from muster.model.topology import MAX_DEVICES
from tests.unit.executors.test_discover import Nvml, NvmlError

OPTIONS = AgentOptions(Path("/nowhere"), "n0")
H100 = "NVIDIA H100 80GB HBM3"


@dataclass
class SickNvml(Nvml):
    """Two GPUs: one is hot, the other has errors."""

    names: list[str] = field(default_factory=lambda: [H100, H100])
    NVML_TEMPERATURE_GPU = 0
    NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    nvmlClocksThrottleReasonHwThermalSlowdown = 64  # noqa: N815
    nvmlClocksThrottleReasonHwSlowdown = 8  # noqa: N815

    def nvmlDeviceGetTemperature(self, gpu: int, _kind: int) -> int:  # noqa: N802
        return (95, 60)[gpu]

    def nvmlDeviceGetTemperatureThreshold(self, _gpu: int, _kind: int) -> int:  # noqa: N802
        return 90

    def nvmlDeviceGetTotalEccErrors(self, gpu: int, *_kind: int) -> int:  # noqa: N802
        if gpu == 0:
            raise NvmlError
        return 2

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: int) -> int:  # noqa: N802
        return 64 + 8 if gpu == 0 else 0

    def nvmlDeviceGetUtilizationRates(self, gpu: int) -> Any:  # noqa: N802
        if gpu == 1:
            raise NvmlError
        return SimpleNamespace(gpu=87)

    def nvmlDeviceGetPciInfo(self, gpu: int) -> Any:  # noqa: N802
        return SimpleNamespace(domain=0, bus=gpu, device=6)


@pytest.fixture
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has eight H100."""
    everything = Gpus("H100", 80 * 2**30, 8, (4, 4), (4, 4), 8, 450)

    def read(only: tuple[str, ...] | None) -> DeviceReading:
        if only is None:
            return DeviceReading(everything)
        count = len(only)
        return DeviceReading(Gpus("H100", 80 * 2**30, count, (count,), (count,)) if only else None)

    monkeypatch.setattr(offer, "read_devices", read)


@pytest.mark.usefixtures("eight")
def test_all_gpus_are_offered() -> None:
    found = describe(OPTIONS, {})
    assert (found.offer.devices, found.offer.device_type) == (8, "H100")
    assert (found.offer.sockets, found.offer.switches, found.offer.nvlink) == (2, (4, 4), 8)
    assert not found.offer.virtual
    assert found.names is None


@pytest.mark.usefixtures("eight")
def test_only_what_the_engine_has_given_is_offered() -> None:
    found = describe(OPTIONS, {"CUDA_VISIBLE_DEVICES": "2,5"})
    assert found.offer.devices == 2
    assert found.names == ("2", "5")


@pytest.mark.usefixtures("eight")
def test_an_engine_that_gave_no_gpu_leaves_the_cores() -> None:
    found = describe(OPTIONS, {"CUDA_VISIBLE_DEVICES": ""})
    assert (found.offer.device_type, found.offer.virtual) == ("cpu", True)


@pytest.mark.usefixtures("eight")
def test_more_gpus_than_there_are_cannot_be_offered() -> None:
    options = AgentOptions(Path("/nowhere"), "n0", devices=9)
    with pytest.raises(AgentError, match=r"8 GPUs, not 9; for virtual devices .* add --virtual"):
        describe(options, {})


@pytest.mark.usefixtures("eight")
def test_devices_can_be_virtual_where_there_are_gpus() -> None:
    found = describe(AgentOptions(Path("/nowhere"), "n0", devices=4, virtual=True), {})
    assert (found.offer.devices, found.offer.device_type, found.offer.virtual) == (4, "cpu", True)


def test_what_the_engine_says_of_other_devices_is_believed() -> None:
    options = AgentOptions(Path("/nowhere"), "n0", devices=4, device_type="MI300X")
    found = describe(options, {})
    assert (found.offer.devices, found.offer.device_type, found.offer.virtual) == (4, "MI300X", False)
    with pytest.raises(AgentError, match="how many devices of type MI300X there are: --devices N"):
        describe(AgentOptions(Path("/nowhere"), "n0", device_type="MI300X"), {})


def test_too_many_devices_are_refused() -> None:
    with pytest.raises(AgentError, match=f"at most {MAX_DEVICES} devices, not 65"):
        describe(AgentOptions(Path("/nowhere"), "n0", devices=65, virtual=True), {})


@pytest.mark.parametrize(
    ("environ", "devices"),
    [
        ({}, None),
        ({"CUDA_VISIBLE_DEVICES": "0, 3"}, ("0", "3")),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8f2d"}, ("GPU-8f2d",)),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, None),
        ({"NVIDIA_VISIBLE_DEVICES": "none"}, ()),
        ({"CUDA_VISIBLE_DEVICES": "1", "NVIDIA_VISIBLE_DEVICES": "all"}, ("1",)),
    ],
)
def test_the_engines_devices(environ: dict[str, str], devices: tuple[str, ...] | None) -> None:
    assert visible(environ) == devices


def test_some_gpus_of_several_kinds_may_be_alike() -> None:
    nvml = Nvml([H100, "NVIDIA A100-SXM4-80GB", H100])
    found = find_gpus(nvml, only=("0", "2"))
    assert found is not None
    assert (found.device_type, found.count) == ("H100", 2)


def test_health_tells_of_the_worst_device() -> None:
    nvml = SickNvml()
    found = ask_nvml(nvml=nvml)
    worst = {"temperature": 95, "slowdown": 90, "ecc": 2, "throttled": "heat"}
    assert found.health == worst | {"busy": [0.87, None]}
    assert found.buses == ("0000:00:06", "0000:01:06")
    assert nvml.open == 0


def test_devices_of_several_types_are_told() -> None:
    assert ask_nvml(nvml=Nvml([H100, "NVIDIA A100-SXM4-80GB"])).mixed == "A100, H100"


def test_without_a_driver_there_is_nothing_to_read() -> None:
    assert ask_nvml(nvml=Nvml([], driver=False)) == DeviceReading()


def test_errors_of_the_driver_come_from_the_kernels_log(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text("3,1,9,-;NVRM: Xid (PCI:0000:00:06): 48, before the agent\n")
    log = KernelLog(str(path))
    with path.open("a") as file:
        file.write("3,2,9,-;NVRM: Xid (PCI:0000:00:06): 79, pid=12, GPU has fallen off the bus.\n")
        file.write("3,3,9,-;NVRM: Xid (PCI:0000:AB:00): 31, of another's GPU\n")
        file.write("3,4,9,-;NVRM: Xid (PCI:0000:00:06 GPU-I:05): 94, of a part of it\n")
    assert log.read({"0000:00:06"}) == [79, 94]
    assert log.read({"0000:00:06"}) == [79, 94]  # still known
    log.close()


def test_health_of_this_machine(tmp_path: Path) -> None:
    probe = HealthProbe(tmp_path)
    found = probe.measure()
    assert {"load", "disk_free", "memory_free"} <= set(found)
    assert found["disk_free"] > 0
    probe.close()


def test_a_machine_is_what_this_process_may_use() -> None:
    assert 0 < machine.millicores() <= 1000 * len(os.sched_getaffinity(0))
    assert 0 < machine.memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("address", "interface"),
    [("127.0.0.1", "lo"), ("127.0.0.9", "lo"), ("::1", "lo"), ("192.0.2.1", ""), ("gpu1", "")],
)
def test_the_interface_of_an_address(address: str, interface: str) -> None:
    if ":" in address and not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    assert machine.interface_of(address) == interface
