"""Six real PyTorch trainings share eight devices, and shares move while they train.

Starts a daemon of its own with eight virtual devices, made of this machine's CPU cores, and two pools
that lend each other what they do not use. Within half a minute it is given six jobs of three kinds:

  gpt    a small transformer that learns to write as these docs do       (gpt-large, gpt-small)
  cnn    a small convolutional network that tells five shapes apart      (cnn-large, cnn-small)
  wide   a wide embedding with a parameter server: who will click?       (wide-large, wide-small)

Each is an ordinary job file beside this script. Nobody says how many workers a job gets: the daemon
measures how fast each one is and how far it has come, and grows and shrinks them while they train. One
that has to stop for a while goes on from its checkpoint. At the end: what was predicted of each job
when it began, and what came of it.
"""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

from outcome import outcome_table
from rich.console import Console
from rich.live import Live
from stage import StageError, stage

from muster.cli.jobs.reading.top import Gathering
from muster.cli.render.live import ClusterFrame, live
from muster.client import Client, Handle
from muster.client.sending.job_record import read_file
from muster.policy.registry import POLICIES
from muster.wire.api.records import OVER, JobRecord

HERE = Path(__file__).resolve().parent
ACTS = {
    "gpt-large": 0.0,
    "cnn-large": 5.0,
    "wide-small": 12.0,
    "cnn-small": 18.0,
    "gpt-small": 28.0,
    "wide-large": 34.0,
}
"""The jobs, each by its file, and the second in which it is submitted."""
GAP = 6.8
"""Mean s between two submissions: theirs as they stand, and with a seed."""
INTERVAL = "5s"
"""Longest time between two cycles: what jobs report counts within seconds."""
LOOK = 0.5
"""Seconds between two pictures."""
LIMIT = 600.0
"""Seconds after which something is wrong: jobs that are not over by then are stopped."""
TOLD = (
    "Submitted",
    "StartBegun",
    "Started",
    "ResizeBegun",
    "Resized",
    "PreemptBegun",
    "Preempted",
    "MigrateBegun",
    "Migrated",
    "TasksLost",
    "Ended",
)
"""What happens to jobs as a whole: where there is no terminal, a line for each."""


@dataclass(frozen=True, slots=True)
class Act:
    """A job, and when it is submitted."""

    at: float
    record: dict[str, Any]


def moments(names: Sequence[str], seed: int | None) -> dict[str, float]:
    """Return the second in which each of these jobs is submitted, the first at once.

    With a seed in any order, with gaps as random arrivals have them (exponential)."""
    if seed is None:
        begin = min(ACTS[name] for name in names)
        return {name: at - begin for name, at in ACTS.items() if name in names}
    random = Random(seed)
    order = random.sample(sorted(names), len(names))
    at = [0.0, *accumulate(random.expovariate(1 / GAP) for _ in order[1:])]
    return dict(zip(order, at, strict=True))


def acts(names: Sequence[str], speed: float, seed: int | None = None) -> list[Act]:
    """Return the jobs of these names in order; everything faster by this factor.

    With a seed they come at other times, from other initial parameters, with data in another order."""
    found = []
    for name, at in moments(names, seed).items():
        record = read_file(HERE / f"{name}.yaml")
        sample = float(record["env"]["MUSTER_SAMPLE_SECONDS"]) / speed
        env = {**record["env"], "MUSTER_SAMPLE_SECONDS": f"{sample:g}"}
        duration = f"{float(record['duration'].removesuffix('s')) / speed:g}s"
        command = record["command"] if seed is None else f"{record['command']} --seed {seed}"
        changed = {"env": env, "duration": duration, "command": command}
        found.append(Act(at / speed, {**record, **changed}))
    return found


class Show:
    """Submits the jobs in time, and shows what becomes of them."""

    def __init__(self, client: Client, coming: list[Act], screen: Live | None) -> None:
        self._client, self._coming, self._screen = client, coming, screen
        self._gathering = Gathering(client)
        self._handles: list[Handle] = []
        self._told = 0
        self._began = time.monotonic()

    def run(self) -> list[JobRecord]:
        """To the end of the last job."""
        while True:
            self._submit()
            board = self._board()
            self._show(board)
            over = not self._coming and all(job.status in OVER for job in board.jobs)
            if over or time.monotonic() > self._began + LIMIT:
                return list(board.jobs)
            time.sleep(LOOK)

    def _submit(self) -> None:
        now = time.monotonic() - self._began
        while self._coming and self._coming[0].at <= now:
            act = self._coming.pop(0)
            self._handles.append(self._client.submit(act.record))

    def _board(self) -> ClusterFrame:
        """How things stand, jobs that are over among them."""
        jobs = [handle.record() for handle in self._handles]
        return replace(self._gathering.frame(), jobs=jobs)

    def _show(self, board: ClusterFrame) -> None:
        if self._screen is not None:
            self._screen.update(live(board, time.time()), refresh=True)
            return
        for change in board.changes:
            if change.seq > self._told and change.kind in TOLD:
                print(
                    f"{self._since(change.at):5.1f}s  {change.job or '':<11}{change.text}", flush=True
                )
            self._told = max(self._told, change.seq)

    def _since(self, at: float) -> float:
        return at - time.time() + time.monotonic() - self._began


def main() -> int:
    """Run the demo; 1 if a job did not succeed."""
    asked = _parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = Console()
    try:
        with stage(HERE / "cluster.yaml", asked.policy, INTERVAL, asked.keep) as client:
            ended = _play(client, console, acts(asked.only or list(ACTS), asked.speed, asked.seed))
            forecasts = {job.number: client.forecasts(job.number) for job in ended}
    except KeyboardInterrupt:
        print("stopped: the daemon and its jobs are gone", file=sys.stderr)
        return 130
    except StageError as problem:
        print(f"the daemon did not start: {problem}", file=sys.stderr)
        return 1
    kinds = {job.name: job.name.partition("-")[0] for job in ended}
    print(outcome_table(ended, kinds, forecasts))
    if asked.keep is not None:
        print(f"\nlogs and journal: {asked.keep}")
    failed = [job for job in ended if job.status != "succeeded"]
    for job in failed:
        print(f"\n{job.name} {job.status}: {job.error or ''}", file=sys.stderr)
    return 1 if failed else 0


def _play(client: Client, console: Console, coming: list[Act]) -> list[JobRecord]:
    if not console.is_terminal:
        return Show(client, coming, None).run()
    with Live(console=console, screen=True, auto_refresh=False) as screen:
        return Show(client, coming, screen).run()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Takes about three minutes. Ctrl-C ends it, with everything that it started.",
    )
    parser.add_argument(
        "--policy",
        default="muster",
        choices=sorted(POLICIES),
        metavar="NAME",
        help=f"who decides on shares: {', '.join(sorted(POLICIES))} (muster)",
    )
    parser.add_argument(
        "--speed",
        type=_positive,
        default=1.0,
        metavar="N",
        help="factor by which devices are faster and jobs closer together; "
        "below 1 for a machine that is busy with other things (1)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="another run: jobs come in another order, at random times, and train from other initial "
        "parameters with data in another order",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=list(ACTS),
        metavar="JOB",
        help=f"only this job, and others so named: {', '.join(ACTS)}",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="leave the daemon's folder there: journal, logs of every task, checkpoints",
    )
    return parser.parse_args()


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a speed; write for example 2 or 0.5")
    return number


if __name__ == "__main__":
    sys.exit(main())
