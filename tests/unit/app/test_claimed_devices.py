"""A cluster file against the machine that its tasks really run on."""

from pathlib import Path

import pytest

from muster.app import claimed_devices
from muster.app.claimed_devices import missing_devices
from muster.executors.discover import discover
from muster.executors.gpus import Gpus, MixedError
from muster.files.cluster.cluster_file import load_cluster
from muster.files.errors import InputError

LAB = Path(__file__).parents[3] / "examples/clusters/lab.yaml"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(claimed_devices, "find_gpus", lambda: None)
    return monkeypatch


def gpus(kind: str, count: int) -> Gpus:
    return Gpus(kind, 16 << 30, count, (count,), (count,))


def test_gpus_on_a_machine_without_any_are_warned_of(machine: pytest.MonkeyPatch) -> None:
    warning = missing_devices(load_cluster(LAB).cluster, "lab.yaml", simulate=False)
    assert warning == (
        "lab.yaml names 24 P100, 4 V100, but this machine has no GPUs: tasks run here without them"
    )


def test_other_gpus_than_the_machines_are_refused_unless_meant(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(claimed_devices, "find_gpus", lambda: gpus("H100", 8))
    cluster = load_cluster(LAB).cluster
    with pytest.raises(InputError, match=r"lab\.yaml: names 24 P100.* 8 H100; .*--simulate-devices"):
        missing_devices(cluster, "lab.yaml", simulate=False)
    assert "has 8 H100" in missing_devices(cluster, "lab.yaml", simulate=True)


def test_what_is_there_needs_no_words(machine: pytest.MonkeyPatch) -> None:
    virtual = discover(8)
    assert missing_devices(virtual, "a.yaml", simulate=False) == ""
    machine.setattr(claimed_devices, "find_gpus", lambda: gpus("P100", 24))
    assert "4 V100" in missing_devices(load_cluster(LAB).cluster, "a.yaml", simulate=True)

    def mixed() -> Gpus:
        raise MixedError("P100, V100")

    machine.setattr(claimed_devices, "find_gpus", mixed)
    assert missing_devices(load_cluster(LAB).cluster, "a.yaml", simulate=False) == ""
