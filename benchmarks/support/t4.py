"""Measured step times of six models on nodes of 4 NVIDIA T4 (Pollux OSDI'21 artifact, Apache-2.0)."""

import csv
from collections.abc import Iterator
from pathlib import Path

from muster.perf.speed.fitted import PlacedSample
from muster.perf.speed.step_form import StepSetting

SPEEDS = Path(__file__).resolve().parents[3] / "shared" / "data" / "t4-cluster" / "speeds"
MODELS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")


def load(model: str, folder: Path = SPEEDS) -> tuple[PlacedSample, ...]:
    """All rows of both tables of a model; those of the second are spread as evenly as they can be."""
    if not (folder / model).is_dir():
        raise SystemExit(
            f"no measurements of {model}: {folder / model} is not there (see docs/explanation/speed.md)"
        )
    return (*_placements(folder / model), *_scalability(folder / model))


def _placements(folder: Path) -> Iterator[PlacedSample]:
    with (folder / "placements.csv").open() as table:
        for row in csv.DictReader(table):
            yield _sample(tuple(int(digit) for digit in row["placement"]), row)


def _scalability(folder: Path) -> Iterator[PlacedSample]:
    with (folder / "scalability.csv").open() as table:
        for row in csv.DictReader(table):
            each, more = divmod(int(row["num_replicas"]), nodes := int(row["num_nodes"]))
            yield _sample((each,) * (nodes - more) + (each + 1,) * more, row)


def _sample(shape: tuple[int, ...], row: dict[str, str]) -> PlacedSample:
    setting = StepSetting(shape, int(row["local_bsz"]))
    return PlacedSample(setting, float(row["step_time"]), float(row["sync_time"]))
