"""Read the T4 tables and workloads: CSV files in a folder."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from muster.model.job import Job, Need, Role, RoleSpec
from muster.sim.truth import Arrival
from muster.sim.worlds.interpolate import Array
from muster.sim.worlds.t4 import TrainedT4
from muster.sim.worlds.t4_tables import EPOCHS, Gradients, T4Model, T4Rows, TableError

_PLACED = ("placement", "local_bsz", "step_time", "sync_time")
_LARGER = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
_EPOCH = ("progress", "grad_sqr", "grad_var")
_JOB = ("name", "time", "application", "num_replicas", "batch_size")


def read_tables(folder: Path) -> dict[str, T4Model]:
    """Read the models of a folder, one sub-folder for each known one."""
    found = {name: T4Model(_rows(folder / name)) for name in EPOCHS if (folder / name).is_dir()}
    if not found:
        raise TableError(f"{folder} has none of the folders {', '.join(EPOCHS)}")
    return found


def read_workload(
    path: Path,
    tables: Mapping[str, T4Model],
    *,
    most: int | None = None,
    elastic: bool = True,
    free_batch: bool = False,
    declared: bool = False,
) -> Iterator[Arrival]:
    """Yield the jobs of a workload in the order of the file.

    Elastic ones run on 1 to `most` devices, but no more than their batch can use; others on the number
    in the file. With a free batch, policies may choose any in the measured range. With `declared`, jobs
    state their epochs, though not how long these last.
    """
    for number, (name, time, application, replicas, batch) in enumerate(_read(path, _JOB), start=1):
        if application not in tables:
            raise TableError(f"{path}: line {number + 1}: no tables of {application!r}")
        truth = TrainedT4(tables[application], int(batch), free_batch)
        workers = truth.most(most) if elastic else int(replicas)
        gang = 1 if elastic else workers
        role = RoleSpec(Role.WORKER, Need(devices=1), gang=gang, least=gang, most=workers)
        job = Job(
            name,
            roles=(role,),
            batch=int(batch),
            application=application,
            work=truth.work if declared else None,
            number=number,
        )
        yield Arrival(float(time), job, truth)


def _rows(folder: Path) -> T4Rows:
    placed: dict[tuple[int, ...], list[tuple[float, ...]]] = {}
    for placement, *numbers in _read(folder / "placements.csv", _PLACED):
        placed.setdefault(tuple(map(int, placement)), []).append(tuple(map(float, numbers)))
    larger = [tuple(map(float, row)) for row in _read(folder / "scalability.csv", _LARGER)]
    epochs = EPOCHS[folder.name]
    by_batch = {
        int(path.stem.removeprefix("validation-")): _numbers(_read(path, _EPOCH))[:epochs]
        for path in folder.glob("validation-*.csv")
    }
    if not by_batch or min(map(len, by_batch.values())) < epochs:
        raise TableError(f"{folder} lacks some of its {epochs} epochs at some batch")
    batches = tuple(sorted(by_batch))
    every = np.array([by_batch[batch] for batch in batches])
    return T4Rows(
        folder.name,
        {shape: _numbers(sorted(rows)) for shape, rows in placed.items()},
        _numbers(larger),
        Gradients(batches, every[:, :, 1], every[:, :, 2]),
        tuple(every[:, :, 0].min(axis=0).tolist()),
    )


def _numbers(rows: Iterable[Iterable[str | float]]) -> Array:
    return np.array([[float(each) for each in row] for row in rows])


def _read(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the named columns of a CSV file, row by row."""
    try:
        with path.open(newline="") as file:
            rows = csv.DictReader(file)
            missing = [each for each in columns if each not in (rows.fieldnames or ())]
            if missing:
                raise TableError(f"{path} has no column {missing[0]!r}")
            for row in rows:
                yield tuple(row[each] for each in columns)
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror}") from error
