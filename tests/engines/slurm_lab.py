"""A real Slurm of several nodes on this machine: munged, slurmctld and N slurmd in one folder.

    python -m tests.engines.slurm_lab --nodes 3 --gpus 4 -- sinfo

Control groups hold jobs together, as on real sites; GPUs are device files that nobody opens. Two
partitions lend the same nodes: `gpu`, whose jobs are taken back with a grace when `urgent` wants their
nodes. Every process is a child of this one and ended by its pid; a lock keeps labs apart.
"""

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.engines.ports import free_ports

NEEDED = ("slurmctld", "slurmd", "munged", "sbatch", "squeue")
SBIN = "/usr/sbin"
LOCK = Path(tempfile.gettempdir()) / "muster-slurm-lab.lock"
FREEZER = Path("/sys/fs/cgroup/freezer")
PATIENCE = 60.0
"""s that anything of Slurm's may take on a busy machine."""
LOOK = 0.05
STOPS = 5.0
"""s for a process of Slurm's to end when asked."""
KILL_WAIT = 2
"""s between Slurm's SIGTERM and SIGKILL."""

CONFIGURATION = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/cgroup
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0,sched_min_interval=100000,preempt_youngest_first
SlurmctldParameters=preempt_send_user_signal
TopologyPlugin=topology/tree
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
MpiDefault=none
ReturnToService=2
KillWait={kill_wait}
SlurmctldTimeout=30
SlurmdTimeout={slurmd_timeout}
InactiveLimit=0
MinJobAge=300
NodeName={names} NodeAddr=127.0.0.1 Port={ports} CPUs={cpus} RealMemory={memory} Gres=gpu:v100:{gpus}
PartitionName=gpu Nodes={names} Default=YES MaxTime={max_time} PriorityTier=1 GraceTime={grace}
PartitionName=urgent Nodes={names} MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF
"""

CGROUPS = """
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainCores=no
ConstrainDevices=no
ConstrainRAMSpace=no
"""


def missing() -> str:
    """Why there can be no lab here; empty: there can."""
    absent = [name for name in NEEDED if shutil.which(name, path=_path()) is None]
    if absent:
        return f"{', '.join(absent)} not found; `make slurm` installs Slurm from Debian"
    return "" if os.geteuid() == 0 else "a Slurm lab needs root"


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:{SBIN}"


@dataclass
class SlurmLab:
    """Begun by `start`, ended by `end`."""

    folder: Path
    nodes: int = 3
    gpus: int = 4
    cpus: int = 8
    grace: int = 20
    """s between the notice of a preemption and the end."""
    max_time: str = "24:00:00"
    """Of the partition `gpu`."""
    slurmd_timeout: int = 20
    """s of silence after which Slurm gives a node up."""
    _around: dict[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    """Variables of whoever made it, then: tests change theirs."""
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [f"g{number:03}" for number in range(1, self.nodes + 1)]

    @property
    def environ(self) -> dict[str, str]:
        """In which Slurm's commands mean this lab."""
        return {**self._around, "SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": _path()}

    def start(self) -> None:
        """Return when every node is idle."""
        self._write()
        self._run_munge()
        self.start_controller()
        for name in self.names:
            self.start_node(name)
        self.until(self._all_idle, "every node is idle")

    def start_controller(self) -> None:
        """Run slurmctld; a second one continues where the first was."""
        self._run("slurmctld", "slurmctld", "-D")

    def restart_controller(self) -> None:
        """kill -9 of slurmctld, and another one; not before it has saved what it knows now."""
        now = time.time()
        for job in self.jobs():  # it saves what has changed, after a while
            self.slurm("scontrol", "update", f"jobid={job}", "comment=to be saved")
        self.until(
            lambda: (self.folder / "state" / "job_state").stat().st_mtime > now,
            "slurmctld saves its state",
        )
        self.kill("slurmctld")
        self.start_controller()
        self.until(lambda: " UP" in self._asked("scontrol", "ping"), "slurmctld answers")

    def start_node(self, name: str) -> None:
        """Run a node's slurmd."""
        self._run(name, "slurmd", "-D", "-N", name)

    def kill(self, which: str) -> None:
        """kill -9 of "slurmctld", or of a node's slurmd."""
        child = self._children.pop(which)
        child.kill()
        child.wait()

    def slurm(self, *command: str) -> str:
        """Run a command of Slurm's and return what it printed."""
        done = subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr or done.stdout}"
        return done.stdout.strip()

    def jobs(self, *, partition: str = "gpu") -> dict[int, str]:
        """The jobs of a partition that have not ended, and their states."""
        said = self.slurm("squeue", "--noheader", f"--partition={partition}", "--format=%i %T")
        return {int(line.split()[0]): line.split()[1] for line in said.splitlines()}

    def until(self, reached: Callable[[], object], what: str) -> None:
        """Wait until this is true of the lab."""
        limit = time.monotonic() + PATIENCE
        while not reached():
            dead = [which for which, child in self._children.items() if child.poll() is not None]
            assert not dead, f"{', '.join(dead)} ended\n{self._said()}"
            assert time.monotonic() < limit, f"never came true: {what}\n{self._said()}"
            time.sleep(LOOK)

    def end(self) -> None:
        """Cancel all jobs, end all processes; what Slurm's steps have left is killed by pid."""
        if "slurmctld" in self._children:
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
                self.slurm("scancel", "--user=root", "--signal=KILL", "--full")
                self.slurm("scancel", "--user=root")
                self.until(lambda: not self.slurm("squeue", "--noheader"), "no job is left")
        for which in reversed(list(self._children)):
            child = self._children.pop(which)
            child.terminate()
            try:
                child.wait(STOPS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for name in self.names:  # slurmd leaves its groups behind
            for group in sorted(FREEZER.glob(f"slurm_{name}/**/"), reverse=True):
                with contextlib.suppress(OSError):
                    group.rmdir()

    def left(self) -> list[int]:
        """Processes that have this lab in their command line or environment."""
        mark, found = str(self.folder).encode(), []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                pid = int(entry.name)
                known = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if mark in known and pid != os.getpid():
                    found.append(pid)
        return found

    # --- how it is made ---

    def _write(self) -> None:
        for name in ("state", "spool", "log", "dev"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(self.gpus):
            device = self.folder / "dev" / f"fakegpu{number}"
            os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        controller, *ports = free_ports(self.nodes + 1)
        names = _ranged(self.names)
        text = CONFIGURATION.format(
            folder=self.folder,
            host=socket.gethostname().split(".")[0],
            controller=controller,
            names=names,
            ports=",".join(map(str, ports)) if self.nodes == 1 else f"[{','.join(map(str, ports))}]",
            cpus=self.cpus,
            memory=64 * 1024,
            gpus=self.gpus,
            kill_wait=KILL_WAIT,
            grace=self.grace,
            max_time=self.max_time,
            slurmd_timeout=self.slurmd_timeout,
        )
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text(CGROUPS)
        files = f"{self.folder}/dev/fakegpu[0-{self.gpus - 1}]"
        (self.folder / "gres.conf").write_text(
            f"AutoDetect=off\nNodeName={names} Name=gpu Type=v100 File={files}\n"
        )
        half = (self.nodes + 1) // 2
        racks = {"rack0": self.names[:half], "rack1": self.names[half:]}
        lines = [f"SwitchName={rack} Nodes={','.join(own)}" for rack, own in racks.items() if own]
        lines.append(f"SwitchName=core Switches={','.join(rack for rack, own in racks.items() if own)}")
        (self.folder / "topology.conf").write_text("\n".join(lines) + "\n")

    def _run_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        paths = {"socket": "munge.socket", "pid-file": "munge.pid", "log-file": "log/munge.log"}
        options = [f"--{option}={self.folder / path}" for option, path in paths.items()]
        seed = f"--seed-file={self.folder / 'munge.seed'}"
        # --force: it dislikes folders below /tmp, and root.
        self._run("munged", "munged", "--foreground", "--force", f"--key-file={key}", seed, *options)
        self.until((self.folder / "munge.socket").exists, "munged listens")

    def _run(self, which: str, *command: str) -> None:
        with (self.folder / "log" / f"{which}.out").open("ab") as log:
            self._children[which] = subprocess.Popen(
                command,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _all_idle(self) -> bool:
        said = self._asked("sinfo", "--noheader", "--partition=gpu", "--states=idle", "--format=%D")
        return said.strip() == str(self.nodes)

    def _asked(self, *command: str) -> str:
        """What a command prints, whether or not it succeeds."""
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, check=False
        ).stdout

    def _said(self) -> str:
        logs = sorted((self.folder / "log").glob("*"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1500:]}" for log in logs)


def _ranged(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"g[{names[0][1:]}-{names[-1][1:]}]"


@contextlib.contextmanager
def slurm_lab(folder: Path, **size: int | str) -> Iterator[SlurmLab]:
    """A lab of one's own; a second one waits for the first to end."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lab = SlurmLab(folder, **size)  # type: ignore[arg-type]
        try:
            lab.start()
            yield lab
        finally:
            lab.end()


def main() -> int:
    """Run a command in a lab."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--cpus", type=int, default=8)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    if why := missing():
        print(why, file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory(prefix="muster-slurm-") as folder,
        slurm_lab(Path(folder), nodes=given.nodes, gpus=given.gpus, cpus=given.cpus) as lab,
    ):
        return subprocess.run(given.command, env=lab.environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
