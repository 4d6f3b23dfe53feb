"""Muster on a Slurm of 64 nodes with 8 fake GPUs each, all on this machine (root; `make slurm` first).

nodes    from `muster up` to all nodes joined; memory of an agent and of the daemon
latency  a job of one device, from the command to its first line and to its end: `muster run` beside
         `srun`
gang     512 tasks, one per GPU: from submission to the start of the last; CPU time of all agents, shims
         and tasks together, and of the daemon
jobs     300 short jobs, beside as many `sbatch`

Every process of every node shares the cores of this machine, so the gang's time is CPU time over cores.
Prints tables, then one line per target.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))  # the lab is the tests'

from tests.engines.slurm_cluster import SlurmCluster
from tests.engines.slurm_lab import SlurmLab, missing, slurm_lab
from tests.live.daemons import LONG, MUSTER, environment, processes, until

from support.bars import bar, print_table

STARTED, AGENT, RATIO, LATE = 15.0, 40e6, 1.0, 0.4
"""Targets: s for the gang, bytes of an agent, time of the jobs in that of `sbatch`, s to the first line
of one job."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done."""

    nodes: int = 64
    gpus: int = 8
    jobs: int = 300
    runs: int = 5
    """Of one job, for the latency."""

    @property
    def devices(self) -> int:
        return self.nodes * self.gpus


QUICK = Scale(nodes=4, gpus=4, jobs=16, runs=1)


def main() -> int:
    """Run all parts on one lab."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="4 nodes of 4, a few jobs")
    scale = QUICK if parser.parse_args().quick else Scale()
    if why := missing():
        print(why, file=sys.stderr)
        return 1
    print(f"{os.cpu_count()} cores, load before: {os.getloadavg()[0]:.1f}\n")
    with tempfile.TemporaryDirectory(prefix="muster-slurm-bench-") as folder:
        path = Path(folder)
        with slurm_lab(path / "slurm", nodes=scale.nodes, gpus=scale.gpus) as lab:
            beside = PlainSlurm(lab)
            direct = [beside.latency() for _ in range(scale.runs)]
            batch = beside.batch(scale.jobs)
            with cluster(path / "muster", lab, scale) as daemon:
                measure(daemon, scale, direct, batch)
    return 0


def measure(daemon: SlurmCluster, scale: Scale, direct: list[float], batch: float) -> None:
    """Measure what needs all nodes, and print it beside Slurm's own figures."""
    begun = time.monotonic()
    daemon.start()
    daemon.await_nodes(scale.nodes)
    joined = time.monotonic() - begun
    agents = [_memory(pid) for pid, what in processes(str(daemon.agents)).items() if _is_agent(what)]
    sizes = (max(agents) / 1e6, daemon.memory() / 1e6)
    print_table("nodes joined/s agent/MB daemon/MB", [_row(scale.nodes, joined, *sizes)])
    own = [_latency(daemon) for _ in range(scale.runs)]
    line, end = (median(each[place] for each in own) for place in (0, 1))
    print_table("jobs line/s end/s srun/s", [_row(1, line, end, median(direct))])
    gang, spent = _gang(daemon, scale.devices)
    print_table(
        "tasks started/s daemon/MB nodes/CPU daemon/CPU",
        [_row(scale.devices, gang, daemon.memory() / 1e6, *spent)],
    )
    through = _through(daemon, scale.jobs)
    print_table("jobs muster/s sbatch/s", [_row(scale.jobs, through, batch)])
    bar(f"gang of {scale.devices} started, s", gang, STARTED)
    bar("memory of an agent, bytes", max(agents), AGENT)
    bar(f"{scale.jobs} short jobs, times as long as sbatch", through / batch, RATIO)
    bar("one job, s to its first line", line, LATE)


def _row(count: int, *figures: float) -> tuple[str, ...]:
    return (str(count), *(f"{each:.2f}" for each in figures))


def _latency(daemon: SlurmCluster) -> tuple[float, float]:
    """From the command to the first line, and to the end, of a job that only prints a line."""
    begun = time.monotonic()
    command = [*MUSTER, "run", "-y", "--follow", "--", "echo", "hello"]
    with subprocess.Popen(
        command,
        env=environment(daemon.home),
        cwd=daemon.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        assert b"hello" in process.stdout.readline()
        line = time.monotonic() - begun
        assert process.wait(LONG) == 0
    return line, time.monotonic() - begun


def _gang(daemon: SlurmCluster, tasks: int) -> tuple[float, tuple[float, float]]:
    """From the submission of a gang to the start of its last task; CPU time of nodes and daemon."""
    before = _spent(daemon)
    begun = time.monotonic()
    handle = daemon.sh("exec sleep 3600", name="gang", devices=tasks, grace="1s")
    daemon.await_status("gang", "running")
    took = time.monotonic() - begun
    nodes, own = (after - was for after, was in zip(_spent(daemon), before, strict=True))
    handle.stop(force=True)
    handle.wait(LONG)
    return took, (nodes, own)


def _spent(daemon: SlurmCluster) -> tuple[float, float]:
    """s of CPU time of what runs on the nodes, with what has ended there, and of the daemon."""
    there = [pid for pid in processes(str(daemon.agents)) if pid != daemon.pid]
    servers = [pid for pid, what in processes("shim_server.py").items()]
    return sum(map(_cpu, {*there, *servers})), _cpu(daemon.pid)


def _cpu(pid: int) -> float:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    return sum(map(int, stat.rpartition(")")[2].split()[11:15])) / os.sysconf("SC_CLK_TCK")


def _through(daemon: SlurmCluster, jobs: int) -> float:
    """From the first submission to the end of the last of many short jobs."""
    begun = time.monotonic()
    for number in range(jobs):
        daemon.submit("true", name=f"short-{number}")
    until(lambda: not daemon.client.status().pending + daemon.client.status().running, "all are over")
    return time.monotonic() - begun


@contextmanager
def cluster(folder: Path, lab: SlurmLab, scale: Scale) -> Iterator[SlurmCluster]:
    """A daemon that holds every node of the lab."""
    daemon = SlurmCluster(folder, lab, "--nodes", str(scale.nodes), "--time", "1h")
    os.environ.update(lab.environ, TMPDIR=str(daemon.agents))
    try:
        yield daemon
        daemon.stop()
        daemon.give_back()
    finally:
        daemon.end()


@dataclass(frozen=True, slots=True)
class PlainSlurm:
    """Slurm without Muster."""

    lab: SlurmLab

    def latency(self) -> float:
        """From `srun` to its end."""
        begun = time.monotonic()
        self.lab.slurm("srun", "--gres=gpu:1", "--mem=1M", "echo", "hello")
        return time.monotonic() - begun

    def batch(self, jobs: int) -> float:
        """From the first `sbatch` to the end of the last job."""
        begun = time.monotonic()
        for _ in range(jobs):
            self.lab.slurm("sbatch", "--gres=gpu:1", "--mem=1M", "--output=/dev/null", "--wrap=true")
        until(lambda: not self.lab.jobs(), "all are over")
        return time.monotonic() - begun


def _is_agent(command: str) -> bool:
    return "muster.agent" in command and "shim" not in command


def _memory(pid: int) -> int:
    """Bytes of a process, shared pages by their part."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise LookupError(pid)


if __name__ == "__main__":
    sys.exit(main())
