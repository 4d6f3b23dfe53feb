"""Whole gangs of real processes: each finds the others by what its environment says, unmodified."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from muster.executors.environment import (
    GangEnvironment,
    TaskPlace,
    base_environment,
    compose,
    free_row,
)
from muster.executors.local import LocalExecutor
from muster.model.job import Role
from muster.model.task import TaskExited, TaskId, TaskOrder

LIMIT = 120.0
"""Seconds for a gang to end; a few where nobody else computes."""

HOST = "127.0.0.1"

TORCH = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
place = f"rank {dist.get_rank()} of {dist.get_world_size()}, here {os.environ['LOCAL_RANK']}"
print(f"{place}: {total.item():g}", flush=True)
dist.destroy_process_group()
"""

TENSORFLOW = """
import json, os, socket, time

config = json.loads(os.environ["TF_CONFIG"])
kind, index = config["task"]["type"], config["task"]["index"]
host, port = config["cluster"][kind][index].rsplit(":", 1)
with socket.create_server((host, int(port))) as mine:
    for address in sum(config["cluster"].values(), []):
        there = address.rsplit(":", 1)
        while True:
            try:
                socket.create_connection((there[0], int(there[1]))).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.01)
    for _ in sum(config["cluster"].values(), []):
        mine.accept()[0].close()
sizes = {kind: len(who) for kind, who in sorted(config["cluster"].items())}
print(f"{kind} {index} met all of {sizes}")
"""


class Gang:
    """Runs a command as a gang on one machine, and waits for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.executor = LocalExecutor(folder / "data", time.time)

    def run(self, argv: Sequence[str], workers: int, servers: int = 0) -> dict[str, str]:
        """Each task's log, once all have ended well."""
        roles = [(Role.WORKER, i) for i in range(workers)] + [(Role.SERVER, i) for i in range(servers)]
        master = free_row(HOST, 1 + len(roles))
        places = tuple(
            TaskPlace(role, index, f"{role}-{index}", "n0", HOST, (index,)) for role, index in roles
        )
        gang = GangEnvironment("gang", 1, 1, places, master, threads=1, virtual=True)
        base = base_environment({"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.folder)})
        for place in places:
            task = TaskId(1, 1, place.role, place.index)
            self.executor.start(
                TaskOrder(
                    task,
                    place.node,
                    place.devices,
                    tuple(argv),
                    compose(base, {"GLOO_SOCKET_IFNAME": "lo"}, gang.of(place)),
                    str(self.folder / "work"),
                    f"1/1/{place.name}.log",
                    own_folder=True,
                )
            )
        ends = self._ends(len(places))
        logs = {place.name: self._log(place.name) for place in places}
        assert {end.code for end in ends} == {0}, logs
        return logs

    def _ends(self, count: int) -> list[TaskExited]:
        ends: list[TaskExited] = []
        limit = time.monotonic() + LIMIT
        while len(ends) < count:
            assert time.monotonic() < limit, ends
            ends += [report for report in self.executor.collect() if isinstance(report, TaskExited)]
            time.sleep(0.01)
        return ends

    def _log(self, name: str) -> str:
        return self.executor.read_log(f"1/1/{name}.log", 0, 100_000).data.decode()


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[Gang]:
    one = Gang(tmp_path)
    yield one
    one.executor.close()


def test_an_unmodified_torch_script_runs_as_a_gang(gang: Gang) -> None:
    pytest.importorskip("torch")
    script = gang.folder / "train.py"
    script.write_text(TORCH, encoding="utf-8")
    logs = gang.run([sys.executable, str(script)], workers=2)
    assert "rank 0 of 2, here 0: 3" in logs["worker-0"]
    assert "rank 1 of 2, here 1: 3" in logs["worker-1"]


def test_torchrun_finds_the_others_without_arguments(gang: Gang) -> None:
    pytest.importorskip("torch")
    script = gang.folder / "train.py"
    script.write_text(TORCH, encoding="utf-8")
    logs = gang.run([sys.executable, "-m", "torch.distributed.run", str(script)], workers=2)
    assert "rank 0 of 2, here 0: 3" in logs["worker-0"]
    assert "rank 1 of 2, here 0: 3" in logs["worker-1"]


def test_readers_of_tf_config_meet_each_other(gang: Gang) -> None:
    script = gang.folder / "reader.py"
    script.write_text(TENSORFLOW, encoding="utf-8")
    logs = gang.run([sys.executable, "-S", str(script)], workers=3, servers=1)
    sizes = "{'chief': 1, 'ps': 1, 'worker': 2}"
    assert logs == {
        "worker-0": f"chief 0 met all of {sizes}\n",
        "worker-1": f"worker 0 met all of {sizes}\n",
        "worker-2": f"worker 1 met all of {sizes}\n",
        "server-0": f"ps 0 met all of {sizes}\n",
    }


def test_a_plain_shell_pipeline_runs_as_a_gang(gang: Gang) -> None:
    line = 'yes "$RANK of $WORLD_SIZE" | head -n 1000 | sort | uniq -c | tr -s " "'
    assert gang.run(["sh", "-c", line], workers=2) == {
        "worker-0": " 1000 0 of 2\n",
        "worker-1": " 1000 1 of 2\n",
    }
