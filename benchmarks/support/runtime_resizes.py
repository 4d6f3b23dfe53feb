"""Changes of the number of workers, timed: Muster's, a plain restart's, torchrun's and torchft's."""

import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from muster.runtime.launch.launcher import Launch
from muster.runtime.launch.tasks import Tasks
from support.runtime_marks import (
    Gap,
    Mark,
    all_marks,
    between,
    excesses,
    gaps_of,
    read_marks,
    typical_steps,
)
from support.runtime_peers import (
    PATIENCE,
    SCRIPTS,
    agent_command,
    await_marks,
    free_port,
    run_ddp,
    running,
    start,
)

Change = tuple[int, int]

BATCH = 32
WARM_UP = 3
STINT = 5
"""Steps between two restarts."""
STEADY = 15
"""Steps between two changes: the typical step is their median."""
SETTLING = 5
"""Steps after a change, and after the last joiner holds the state, that count as part of it."""


@dataclass(frozen=True, slots=True)
class Stall:
    """One change, in s."""

    stall: float
    """From the last step before the change to the first after it, less the typical step."""
    slowest: float
    """The longest gap less the typical step, from the order on: joiners start on the same cores."""
    lost: float
    """All gaps less as many typical steps."""
    pause: float
    """What the runtime itself reports: from the end of a step to the beginning of the next."""
    noise: float
    """The longest gap less the typical step where nothing changed, over as many steps."""
    typical: float


def muster_stalls(chain: Sequence[int], rounds: int) -> dict[Change, list[Stall]]:
    """Every change of the chain, `rounds` times, in one training each round."""
    found: dict[Change, list[Stall]] = defaultdict(list)
    with Tasks() as tasks:
        tasks.wait_loaded()
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                for change, stall in _one_chain(chain, Path(folder), tasks).items():
                    found[change].append(stall)
    return found


def _one_chain(chain: Sequence[int], folder: Path, tasks: Tasks) -> dict[Change, Stall]:
    changing: list[tuple[float, float]] = []
    args = ("--out", str(folder), "--batch", str(BATCH))
    script = SCRIPTS / "muster_train.py"
    with Launch(script, args, chain[0], threads=1, logs=folder, tasks=tasks) as job:
        job.wait_step(WARM_UP + STEADY, PATIENCE)
        for size in chain[1:]:
            ordered = time.monotonic()
            job.resize(size)
            job.wait_members(size, PATIENCE)
            _await_all_work(folder, size)
            job.wait_step(job.history.step + SETTLING, PATIENCE)
            changing.append((ordered, time.monotonic()))
            job.wait_step(job.history.step + STEADY, PATIENCE)
        pauses = [change.pause for change in job.look(lambda history: list(history.changes))]
        over = time.monotonic()
    gaps = gaps_of(read_marks(folder / "worker-0.marks"))[WARM_UP:]
    edges = [gaps[0].ended, *(end for _, end in changing)], [*(begin for begin, _ in changing), over]
    steady = [between(gaps, begin, end) for begin, end in zip(*edges, strict=True)]
    return {
        change: _stall(between(gaps, *when), before, after, pause)
        for change, when, (before, after), pause in zip(
            pairwise(chain), changing, pairwise(steady), pauses[1:], strict=True
        )
    }


def _await_all_work(folder: Path, size: int) -> None:
    """Until every worker has a share of the batch: a joiner has none before it has the state."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        latest = [marks[-1] for path in folder.glob("*.marks") if (marks := read_marks(path))]
        newest = max(mark.step for mark in latest)
        at_work = [m for m in latest if m.step >= newest - 1 and m.size == size and m.samples]
        if len(at_work) >= size:
            return
        time.sleep(0.05)
    raise TimeoutError(f"not all of {size} workers have samples after {PATIENCE:g} s")


def _stall(inside: Sequence[Gap], before: Sequence[Gap], after: Sequence[Gap], pause: float) -> Stall:
    """What the gaps during a change are longer than typical ones."""
    typical = typical_steps(before) | typical_steps(after)
    over = excesses(inside, typical)
    # The first gap that ends with the new number of workers.
    at_change = next(e for gap, e in zip(inside, over, strict=True) if gap.size == after[0].size)
    noise = max(excesses(after, typical))
    return Stall(at_change, max(over), sum(over), pause, noise, typical[after[0].size])


def restart_seconds(chain: Sequence[int]) -> dict[Change, float]:
    """Plain DDP, stopped with a checkpoint and started again: from the last step to the first."""
    with tempfile.TemporaryDirectory() as name:
        folder, edges = Path(name), []
        args = ["--out", name, "--batch", str(BATCH), "--checkpoint", f"{name}/checkpoint"]
        for stint, size in enumerate(chain):
            run_ddp(size, [*args, "--steps", str(STINT)], folder / "log")
            marks = [mark for mark in all_marks(folder) if stint * STINT < mark.step]
            edges.append((marks[0].at, marks[-1].at))
    return {
        change: first - last
        for change, ((_, last), (first, _)) in zip(pairwise(chain), pairwise(edges), strict=True)
    }


def torchrun_seconds(change: Change) -> float:
    """Agents join or leave, torchrun restarts all workers: from the last step to the first."""
    before, after = change
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name), Path(name, "log")
        args = [
            "--out",
            name,
            "--batch",
            str(BATCH),
            "--checkpoint",
            f"{name}/checkpoint",
            "--every",
            "5",
        ]
        agent = agent_command(1, max(change), 1, free_port(), args)
        with running([agent] * before, log) as agents:
            await_marks(folder, lambda marks: _steps_at(marks, before) > STINT, log)
            for leaver in agents[after:]:
                leaver.send_signal(signal.SIGTERM)
            with log.open("ab") as output:
                agents += [start(*agent, output) for _ in range(after - before)]
            marks = await_marks(folder, lambda marks: _steps_at(marks, after) > 0, log)
    return first_after_last(marks, change)


def _steps_at(marks: Sequence[Mark], size: int) -> int:
    """Steps done by this many workers."""
    return len({mark.step for mark in marks if mark.size == size})


def first_after_last(marks: Sequence[Mark], change: Change) -> float:
    """Seconds from the last step of the one size to the first one of the other."""
    before, after = change
    first = min(mark.at for mark in marks if mark.size == after)
    return first - max(mark.at for mark in marks if mark.size == before and mark.at < first)
