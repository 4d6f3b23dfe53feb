"""One cell of the matrix: a feature, and what happens to its workers."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from muster.runtime.launch.history import History
from muster.runtime.launch.launcher import JobOverError, LaunchOutcome
from tests.matrix.feature import CLOSE, EXACT, NOISE, REFUSED, Feature, Result
from tests.matrix.features import features
from tests.runtime.scripts.jobs import LONG, Job

TRAIN = Path(__file__).with_name("train.py")
GPU_CLOSE = 1e-8
"""Of a plain run on the CPU: a GPU adds in another order, and a training magnifies that."""
DIFFERENT, FAILED = "DIFFERENT", "FAILED"


@dataclass(frozen=True, slots=True)
class Cell:
    """How a feature came through."""

    feature: str
    event: str
    verdict: str
    detail: str
    """The largest difference, or the words of the refusal or failure."""
    good: bool


def resize(job: Job) -> None:
    """From one worker to three and to two."""
    job.ahead(3)
    job.change(3)
    job.ahead(5)
    job.change(2)
    job.ahead(4)


def kill(job: Job) -> None:
    """Of three workers, first one and then the first dies."""
    job.ahead(4)
    job.kill("worker-1")
    job.wait_members(2, LONG)
    job.ahead(4)
    job.kill("worker-0")
    job.wait_members(1, LONG)
    job.ahead(3)


EVENTS: dict[str, tuple[int, Callable[[Job], None]]] = {"resize": (1, resize), "kill": (3, kill)}


def run_cell(feature: Feature, event: str, folder: Path, device: str = "cpu") -> Cell:
    """Train a feature through an event, in real processes, and judge the result."""
    workers, disturb = EVENTS[event]
    if feature.verdict == REFUSED:
        workers = max(2, workers)  # one alone has nobody to differ from; a newcomer is refused alone
    words = ("--feature", feature.title)
    with Job(folder, *words, script=TRAIN, workers=workers, devices=[device] * workers) as job:
        outcome, disturbed = _trained(job, disturb, feature.ends)
        said = job.output()
    if outcome.code != 0 or not disturbed:
        return _failed(feature, event, outcome.error or f"over before its {event}", said)
    exact = CLOSE if device == "cpu" else GPU_CLOSE
    return _judged(feature, event, folder, outcome.history, exact)


def _judged(feature: Feature, event: str, folder: Path, history: History, exact: float) -> Cell:
    steps = history.step
    found: Result = torch.load(folder / "out.pt")
    expected = plain(feature, steps, folder)
    last = [each.step - 1 for each in history.changes if each.cause == "failure"]
    apart = feature.difference(feature.excused(found, expected, last), expected)
    if apart <= exact or feature.verdict != NOISE:
        verdict = EXACT if apart <= exact else DIFFERENT
        good = verdict == EXACT and feature.verdict in (EXACT, NOISE)
        return Cell(feature.title, event, verdict, f"{apart:.0e}", good)
    noise = feature.noise(found, lambda one, seed: plain(one, steps, folder, seed))
    verdict = NOISE if noise <= feature.close else DIFFERENT
    return Cell(feature.title, event, verdict, f"{noise:.1f} {feature.unit}", verdict == NOISE)


def run_alone(device: str, asked: tuple[str, str]) -> Cell:
    """Run the cell of a title and an event in a folder of its own."""
    title, event = asked
    with tempfile.TemporaryDirectory(prefix="muster-matrix-") as folder:
        return run_cell(features()[title], event, Path(folder), device)


def _trained(job: Job, disturb: Callable[[Job], None], ends: bool) -> tuple[LaunchOutcome, bool]:
    """Disturb a job; return how it ended, and whether it lived to see all of it.

    `ends`: by itself.
    """
    disturbed = False
    try:
        disturb(job)
        disturbed = True
        if not ends:
            job.stop("enough")
    except (JobOverError, TimeoutError):
        pass  # the job is over before its time: its outcome says why
    job.release()
    return job.wait(LONG), disturbed


def _failed(feature: Feature, event: str, error: str, said: str) -> Cell:
    refused = feature.verdict == REFUSED and feature.words in error
    verdict = REFUSED if refused else FAILED
    detail = error if refused else f"{error}\n{said}"
    return Cell(feature.title, event, verdict, detail, refused)


def plain(feature: Feature, steps: int, folder: Path, seed: int = 0) -> Result:
    """Train in this process, in plain torch; `folder`: of the job that is compared with it."""
    before = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    try:
        parts = feature.build()
        parts.folder = folder
        torch.manual_seed(seed)
        feature.plain(parts, steps, seed)
        return feature.result(parts)
    finally:
        torch.set_default_dtype(before[0])
        torch.set_num_threads(before[1])
