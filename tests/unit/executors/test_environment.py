"""What tasks are told: every framework's own rules about who is who."""

import contextlib
import json
import socket

import pytest

from muster.executors.environment import (
    GangEnvironment,
    TaskPlace,
    base_environment,
    compose,
    free_row,
)
from muster.model.job import Role
from muster.runtime.settings import from_environment


def worker(index: int, node: str = "n0", devices: tuple[int, ...] = (0,)) -> TaskPlace:
    return TaskPlace(Role.WORKER, index, f"worker-{index}", node, f"10.0.0.{node[1:]}", devices)


def server(index: int, node: str = "n0") -> TaskPlace:
    return TaskPlace(Role.SERVER, index, f"server-{index}", node, f"10.0.0.{node[1:]}")


def gang(*tasks: TaskPlace, virtual: bool = True, **more: object) -> GangEnvironment:
    return GangEnvironment("train", 12, 3, tasks, 29500, virtual=virtual, **more)  # type: ignore[arg-type]


def test_ranks_count_workers_alone_without_gaps_in_the_order_of_their_indices() -> None:
    tasks = (server(0), worker(5, "n1"), worker(0), server(1), worker(2))
    told = {task.name: gang(*tasks).of(task) for task in tasks}
    ranks = {name: (one.get("RANK"), one.get("WORLD_SIZE")) for name, one in told.items()}
    assert ranks == {
        "worker-0": ("0", "3"),
        "worker-2": ("1", "3"),
        "worker-5": ("2", "3"),
        "server-0": (None, None),
        "server-1": (None, None),
    }
    assert {one["MASTER_ADDR"] for one in told.values()} == {"10.0.0.0"}
    assert {one["MASTER_PORT"] for one in told.values()} == {"29500"}


def test_local_ranks_count_the_workers_of_a_node() -> None:
    tasks = (worker(0), worker(1), worker(2, "n1"))
    environment = gang(*tasks)
    told = [environment.of(task) for task in tasks]
    names = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
    assert [tuple(one[name] for name in names) for one in told] == [
        ("0", "2", "0", "2"),
        ("1", "2", "0", "2"),
        ("0", "1", "1", "2"),
    ]
    names = ("HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE")
    assert [tuple(one[name] for name in names) for one in told] == [
        ("0", "2", "0", "2"),
        ("1", "2", "0", "2"),
        ("0", "1", "1", "2"),
    ]


def test_local_rank_is_a_device_that_the_task_can_see() -> None:
    """`torch.cuda.set_device(LOCAL_RANK)`, as scripts do, must find one."""
    tasks = (worker(0, devices=(2,)), worker(1, devices=(5,)), worker(2, devices=(6, 7)))
    for task in tasks:
        told = gang(*tasks, virtual=False).of(task)
        shown = told["CUDA_VISIBLE_DEVICES"].split(",")
        assert shown == [str(device) for device in task.devices]
        assert int(told["LOCAL_RANK"]) < len(shown)
        assert told["NVIDIA_VISIBLE_DEVICES"] == told["ROCR_VISIBLE_DEVICES"] == ",".join(shown)
        assert told["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert told["MUSTER_DEVICE"] == "cuda:0"


def test_virtual_devices_hide_the_real_ones_and_servers_see_none() -> None:
    for environment, task in (
        (gang(worker(0, devices=(3,))), worker(0, devices=(3,))),
        (gang(worker(0), server(0), virtual=False), server(0)),
    ):
        told = environment.of(task)
        assert told["CUDA_VISIBLE_DEVICES"] == ""
        assert told["MUSTER_DEVICE"] == "cpu"


def test_torchrun_takes_each_task_for_a_node_with_its_devices() -> None:
    tasks = (worker(0, devices=(0, 1)), worker(1, "n1", devices=(0, 1)))
    told = gang(*tasks, virtual=False, attempt=2, restarts=5).of(tasks[1])
    assert {
        name: value for name, value in told.items() if name.startswith(("PET_", "TORCHELASTIC"))
    } == {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "2",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "10.0.0.0",
        "PET_MASTER_PORT": "29500",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "5",
        "TORCHELASTIC_RUN_ID": "12",
    }


def test_tensorflow_has_a_chief_and_counts_the_other_workers_from_0() -> None:
    tasks = (worker(0), worker(1), worker(2, "n1"), server(0, "n1"))
    told = {task.name: json.loads(gang(*tasks).of(task)["TF_CONFIG"]) for task in tasks}
    cluster = {
        "chief": ["10.0.0.0:29501"],
        "worker": ["10.0.0.0:29502", "10.0.0.1:29503"],
        "ps": ["10.0.0.1:29504"],
    }
    assert all(one["cluster"] == cluster for one in told.values())
    assert {name: one["task"] for name, one in told.items()} == {
        "worker-0": {"type": "chief", "index": 0},
        "worker-1": {"type": "worker", "index": 0},
        "worker-2": {"type": "worker", "index": 1},
        "server-0": {"type": "ps", "index": 0},
    }


def test_a_lone_worker_is_a_chief_alone() -> None:
    one = TaskPlace(Role.WORKER, 0, "worker-0", "n0", "::1")
    environment = gang(one)
    told = json.loads(environment.of(one)["TF_CONFIG"])
    chief = f"[::1]:{environment.master_port + 1}"
    assert told == {"cluster": {"chief": [chief]}, "task": {"type": "chief", "index": 0}}


def test_the_runtime_understands_what_it_is_told() -> None:
    tasks = (worker(0), server(0))
    environment = gang(
        *tasks, coordinator="127.0.0.1:7000", token="t", threads=2, checkpoint_signal="SIGUSR1"
    )
    told = environment.of(tasks[1])
    settings = from_environment(told)
    assert (settings.job, settings.task, settings.role) == ("train", "server-0", "server")
    assert settings.coordinator == ("127.0.0.1", 7000)
    assert (settings.token, settings.host, settings.threads, settings.device) == (
        "t",
        "10.0.0.0",
        2,
        "cpu",
    )
    assert told["MUSTER_GENERATION"] == "3"
    assert (told["MUSTER_INDEX"], told["MUSTER_NODE"]) == ("0", "n0")
    assert told["MUSTER_CHECKPOINT_SIGNAL"] == "SIGUSR1"
    assert told["OMP_NUM_THREADS"] == "2"


def test_a_gang_without_a_coordinator_trains_alone() -> None:
    assert from_environment(gang(worker(0)).of(worker(0))).coordinator is None


def test_a_large_gang_is_described_quickly() -> None:
    """A thousand tasks: what is the same for all of them is worked out once."""
    tasks = tuple(worker(index, f"n{index // 8}", (index % 8,)) for index in range(1000))
    environment = gang(*tasks)
    assert environment.of(tasks[999])["LOCAL_RANK"] == "7"
    assert environment.of(tasks[999])["GROUP_RANK"] == "124"


MANAGER = {
    "PATH": "/opt/venv/bin:/usr/bin",
    "VIRTUAL_ENV": "/opt/venv",
    "HOME": "/home/ada",
    "LC_ALL": "C.UTF-8",
    "HTTPS_PROXY": "http://proxy",
    "SSL_CERT_FILE": "/etc/ca",
    "PYTHONPATH": "/opt",
    "MUSTER_TOKEN": "geheim",
    "OPENBLAS_NUM_THREADS": "1",
    "AWS_SECRET_ACCESS_KEY": "geheim",
}


def test_of_the_manager_a_task_gets_little_and_no_virtual_environment() -> None:
    assert base_environment(MANAGER) == {
        "PATH": "/usr/bin",
        "HOME": "/home/ada",
        "LC_ALL": "C.UTF-8",
        "HTTPS_PROXY": "http://proxy",
        "SSL_CERT_FILE": "/etc/ca",
        "PYTHONUNBUFFERED": "1",
    }


def test_what_the_user_sets_wins_but_for_what_the_coordinator_goes_by() -> None:
    given = {"OMP_NUM_THREADS": "2", "MUSTER_TOKEN": "t"}
    users = {
        "OMP_NUM_THREADS": "8",
        "MUSTER_TOKEN": "x",
        "MUSTER_SAMPLE_SECONDS": "0.1",
        "PATH": "/mine",
    }
    assert compose({"PATH": "/bin", "HOME": "/h"}, users, given) == {
        "PATH": "/mine",
        "HOME": "/h",
        "OMP_NUM_THREADS": "8",
        "MUSTER_TOKEN": "t",
        "MUSTER_SAMPLE_SECONDS": "0.1",
    }


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_free_ports_can_be_listened_at(host: str) -> None:
    first = free_row(host, 3)
    with contextlib.ExitStack() as held:
        for port in range(first, first + 3):
            held.enter_context(socket.create_server((host, port)))
