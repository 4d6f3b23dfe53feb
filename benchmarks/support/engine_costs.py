"""What a gained and a lost node cost a training, and how soon a job starts: on one Ray cluster."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from tests.engines.ray_cluster import RayCluster
from tests.engines.ray_lab import RAY, RayLab
from tests.live.daemons import until

from support.runtime_marks import Mark, all_marks
from support.runtime_peers import SCRIPTS, PeerError, end, start, tail

PATIENCE = 400.0
"""s for anything here, on a busy machine."""
STEADY = 25
"""Steps before and after each change."""
EVERY = 20
"""Steps between two checkpoints of Ray Train: some 5 s of training."""
LOOK = 5.0
"""s between two looks of Ray Train for new nodes; 60 unless told."""
UPTIME = "cut -d' ' -f1 /proc/uptime > {path}.draft && mv {path}.draft {path}"
"""A job that says when it began, by a clock that all processes of this machine share."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a change: s without progress, less a typical step. Steps done again are no progress."""

    seconds: float
    step: float
    """s of a typical step."""
    redone: int
    """Steps done again."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Of a node that comes and of one that dies."""

    gained: Cost
    lost: Cost


def train_costs(python: str, lab: RayLab, nodes: Sequence[str]) -> Costs:
    """Ray Train's elastic training on the nodes: all but the last, then all, then without the last."""
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name), Path(name, "log")
        script = [python, str(SCRIPTS / "ray_train.py"), "--address", lab.address, "--out", name]
        options = ["--most", str(len(nodes)), "--every", str(EVERY), "--look", str(LOOK)]
        with log.open("ab") as output:
            process = start([*script, *options], {}, output)
        try:
            return _costs(lab, nodes, folder, log, lambda: lab.kill_all(nodes[-1]))
        finally:
            end([process])


def muster_costs(daemon: RayCluster, nodes: Sequence[str]) -> Costs:
    """Muster's, likewise; the node dies with its agent and all that runs there."""
    folder = daemon.work("train")
    script = (sys.executable, str(SCRIPTS / "muster_train.py"), "--out", str(folder), "--batch", "12")
    job = daemon.submit(*script, name="train", devices=f"1..{len(nodes)}", env={"OMP_NUM_THREADS": "1"})
    try:
        return _costs(daemon.lab, nodes, folder, daemon.log, lambda: daemon.kill_node(nodes[-1]))
    finally:
        job.stop()
        job.wait(PATIENCE)


def _costs(
    lab: RayLab, nodes: Sequence[str], folder: Path, log: Path, kill: Callable[[], None]
) -> Costs:
    few, all_ = len(nodes) - 1, len(nodes)
    _await_steps(folder, few, 0.0, log)
    before = time.monotonic()
    lab.add(nodes[-1], gpus=1, cpus=2)
    _await_steps(folder, all_, before, log)
    gained = _cost(all_marks(folder), before, time.monotonic())
    struck = time.monotonic()
    kill()
    _await_steps(folder, few, struck, log)
    lost = _cost(all_marks(folder), struck, time.monotonic())
    lab.remove(nodes[-1])
    return Costs(gained, lost)


def _await_steps(folder: Path, size: int, since: float, log: Path) -> None:
    """Wait until this many workers have trained for a while beyond the steps done before."""
    limit = time.monotonic() + PATIENCE
    while len([mark for mark in _progress(all_marks(folder)) if _counts(mark, size, since)]) < STEADY:
        if time.monotonic() > limit:
            raise PeerError(f"no {STEADY} steps of {size} workers in {PATIENCE:g} s: {tail(log)}")
        time.sleep(0.2)


def _counts(mark: Mark, size: int, since: float) -> bool:
    return mark.size == size and mark.at > since


def _progress(marks: Sequence[Mark]) -> Iterator[Mark]:
    """The first time that each step was done: what nobody had done before."""
    best = 0
    for mark in marks:
        if mark.step > best:
            best = mark.step
            yield mark


def _cost(marks: Sequence[Mark], begin: float, end: float) -> Cost:
    progress = list(_progress(marks))
    typical = median(after.at - before.at for before, after in pairwise(progress))
    before, after = max(
        ((one, other) for one, other in pairwise(progress) if other.at > begin and one.at < end),
        key=lambda pair: pair[1].at - pair[0].at,
    )
    again = {mark.step for mark in marks if before.at < mark.at < after.at and mark.step <= before.step}
    return Cost(after.at - before.at - typical, typical, len(again))


# --- the start of a job ---


def muster_latency(daemon: RayCluster, rounds: int) -> float:
    """Return the s from `muster run` to the first line of a job with one device; the median."""

    def submit(line: str) -> None:
        daemon.muster("run", "-y", "--", "sh", "-c", line).check_returncode()

    return median(_began(daemon.work("starts") / str(number), submit) for number in range(rounds))


def ray_latency(python: str, dashboard: int, rounds: int) -> float:
    """Return the s from `ray job submit` to the first line of its entrypoint; the median."""
    where = f"http://127.0.0.1:{dashboard}"
    words = ("job", "submit", "--address", where, "--no-wait", "--entrypoint-num-gpus", "1")

    def submit(line: str) -> None:
        command = [python, *RAY, *words, "--", "sh", "-c", line]
        subprocess.run(command, capture_output=True, check=True)

    with tempfile.TemporaryDirectory() as folder:
        return median(_began(Path(folder, str(number)), submit) for number in range(rounds))


def _began(path: Path, submit: Callable[[str], None]) -> float:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    submit(UPTIME.format(path=path))
    until(path.exists, "the job has begun")
    return float(path.read_text(encoding="ascii")) - before


@contextmanager
def lab_with(nodes: Sequence[str], python: str, *, dashboard: bool = False) -> Iterator[RayLab]:
    """A Ray cluster with these nodes, of one device each."""
    lab = RayLab(python, dashboard=dashboard)
    try:
        lab.start_head()
        lab.add(*nodes, gpus=1, cpus=2)
        yield lab
    finally:
        lab.end()


@contextmanager
def muster_on(lab: RayLab, nodes: Sequence[str]) -> Iterator[RayCluster]:
    """A daemon on the same cluster, with the nodes that it has."""
    with tempfile.TemporaryDirectory(prefix="muster-on-ray-") as name:
        # First come, first served: every job gets all it can use, as in Ray Train. On few cores the
        # default policy would see that a third worker gains nothing.
        daemon = RayCluster(Path(name), lab, "--policy", "fifo")
        try:
            daemon.start()
            daemon.await_nodes(*nodes)
            yield daemon
        finally:
            daemon.end()
