"""Runs trainings of `batch_train.py`: alone on a device, or with a worker in each namespace."""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.roster.acts import Terms
from muster.roster.roster import Roster
from muster.runtime.launch.coordinator import Coordinator
from muster.runtime.launch.history import History
from muster.split.goodput import efficiency
from support.netns import Namespace, enter

SCRIPT = Path(__file__).with_name("batch_train.py")
SOURCES = str(Path(__file__).parents[2] / "src")
PATIENCE = 600.0
"""Seconds for one training."""
TOKEN = "0" * 32


@dataclass(frozen=True, slots=True)
class Outcome:
    """One training."""

    steps: list[tuple[float, int, float, float | None]]
    """Of each: s since the beginning, samples, mean loss, noise."""
    right: float
    """Of data that was not trained on, the share it tells right."""
    judged: list[tuple[int, float]]
    """By samples so far, the loss of data that was not trained on."""
    own: int
    """The user's batch."""

    @property
    def seconds(self) -> float:
        return self.steps[-1][0]

    @property
    def samples(self) -> int:
        return sum(total for _, total, *_ in self.steps)

    def samples_to(self, loss: float) -> float:
        """Samples until data that was not trained on has a loss, between two models in proportion."""
        before, worse = 0, self.steps[0][2]
        for seen, now in self.judged:
            if now <= loss:
                return before + (seen - before) * (worse - loss) / max(worse - now, 1e-9)
            before, worse = seen, now
        raise ValueError(f"a loss of {loss} was never reached")

    def worth_of(self, samples: float) -> float:
        """Samples of the own batch that the first ones were worth, as the runtime believed."""
        worth, left = 0.0, samples
        for _, total, _, noise in self.steps:
            each = 1.0 if noise is None else efficiency(noise, self.own, max(self.own, total))
            worth += each * min(total, left)
            left -= min(total, left)
        return worth

    @property
    def best(self) -> float:
        """The lowest loss of data that was not trained on."""
        return min(loss for _, loss in self.judged)

    @property
    def batch(self) -> int:
        """The largest one that was used for long."""
        sizes = sorted(total for _, total, *_ in self.steps)
        return sizes[int(0.9 * (len(sizes) - 1))]


def run_alone(device: str, arguments: list[str], environ: Mapping[str, str] | None = None) -> Outcome:
    """Train with one worker on a device, without any coordinator."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        command = [sys.executable, str(SCRIPT), *arguments, "--out", str(out)]
        own = {"MUSTER_DEVICE": device, "PYTHONPATH": SOURCES, **(environ or {})}
        subprocess.run(command, check=True, timeout=PATIENCE, env={**os.environ, **own})
        return outcome(out)


def run_apart(nodes: tuple[Namespace, ...], pace: float, arguments: list[str]) -> Outcome:
    """Train with one worker in each namespace; a sample takes `pace` s at least."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        task = (nodes, pace, [*arguments, "--out", str(out)])
        process = multiprocessing.get_context("spawn").Process(target=_coordinate, args=task)
        process.start()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
        return outcome(out)


def outcome(path: Path) -> Outcome:
    """Read what a training wrote."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if not found["reached"]:
        raise RuntimeError(f"the target loss was never reached: {found['steps'][-1]}")
    steps = [tuple(step) for step in found["steps"]]
    return Outcome(steps, found["right"], [tuple(each) for each in found["judged"]], found["own"])


def _coordinate(nodes: tuple[Namespace, ...], pace: float, arguments: list[str]) -> None:
    """Be the coordinator, in the first namespace."""
    enter(nodes[0].name)
    running: dict[str, subprocess.Popen[bytes]] = {}
    changed = threading.Condition()

    def begin(task: str, role: str) -> None:
        node = nodes[len(running)]
        own: dict[str, Any] = {
            "MUSTER_JOB": "batch",
            "MUSTER_TASK": task,
            "MUSTER_ROLE": role,
            "MUSTER_COORDINATOR": f"{one.address[0]}:{one.address[1]}",
            "MUSTER_TOKEN": TOKEN,
            "MUSTER_HOST": node.address,
            "MUSTER_THREADS": "1",
            "MUSTER_DEVICE": "cpu",
            "MUSTER_SAMPLE_SECONDS": str(pace),
            "PYTHONPATH": SOURCES,
        }
        command = ["ip", "netns", "exec", node.name, sys.executable, str(SCRIPT), *arguments]
        running[task] = subprocess.Popen(command, env={**os.environ, **own})

    roster = Roster(Terms(60.0, "ring"))
    kill = lambda task: running[task].kill()  # noqa: E731 (one word for the coordinator)
    one = Coordinator("batch", TOKEN, roster, History(), begin, kill, (nodes[0].address, 0), changed)
    one.resize(len(nodes))
    for process in running.values():
        process.wait(PATIENCE)
    one.close()
