"""Jobs of Microsoft's Philly cluster: the extract with `timestamp,duration,num_gpus,gpu_time,cluster`.

The file is not in order of time, so its rows are kept as arrays (26 bytes a row) and sorted; jobs are
built lazily. A job is a gang of `num_gpus` workers of one device each that takes `duration` s (see
worlds.fixed); its pool is its virtual cluster. Times count from the first submission. Source: Philly
traces (CC-BY-4.0), as shipped with the Pollux OSDI'21 artifact.
"""

import csv
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

from muster.files.errors import InputError, shown
from muster.model.job import Job
from muster.sim.trace.left_out import LeftOut, left_out_or_raised
from muster.sim.trace.roles import workers
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed

HEADER = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")

MOST_DEVICES = 32_767
"""Most devices of a job: two bytes, and ten times the cluster."""

_ZERO = datetime(1970, 1, 1)


@dataclass(slots=True)
class _Rows:
    """The columns of the file, compactly."""

    submitted: "array[float]" = field(default_factory=lambda: array("d"))
    durations: "array[float]" = field(default_factory=lambda: array("d"))
    devices: "array[int]" = field(default_factory=lambda: array("h"))
    clusters: "array[int]" = field(default_factory=lambda: array("i"))
    lines: "array[int]" = field(default_factory=lambda: array("i"))
    names: dict[str, int] = field(default_factory=dict)

    def add(self, line: int, cells: Sequence[str]) -> None:
        """Append a row; ValueError if it is invalid."""
        if len(cells) != len(HEADER):
            raise ValueError(f"has {len(cells)} values instead of {len(HEADER)}")
        submitted, duration, devices = _moment(cells[0]), _seconds(cells[1]), _count(cells[2])
        self.submitted.append(submitted)
        self.durations.append(duration)
        self.devices.append(devices)
        self.clusters.append(self.names.setdefault(cells[4], len(self.names)))
        self.lines.append(line)


def read_philly(
    path: Path, *, one_pool: bool = False, left_out: LeftOut | None = None
) -> Iterator[Arrival]:
    """Yield the jobs of a Philly file by submission; a pool for each virtual cluster, or one."""
    rows = _read(path, left_out)
    pools = ["default" if one_pool else name for name in rows.names]
    submitted = np.frombuffer(rows.submitted) if rows.submitted else np.empty(0)
    first = float(submitted.min()) if len(submitted) else 0.0
    order = np.argsort(submitted, kind="stable").astype(np.int32)
    for number, i in enumerate(order, start=1):
        devices, duration = rows.devices[i], rows.durations[i]
        job = Job(
            name=f"philly-{rows.lines[i]}",
            pool=pools[rows.clusters[i]],
            roles=workers(devices, devices),
            number=number,
        )
        yield Arrival(rows.submitted[i] - first, job, Fixed(duration, devices))


def _read(path: Path, left_out: LeftOut | None) -> _Rows:
    rows = _Rows()
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            if tuple(next(reader, ())) != HEADER:
                raise InputError.at(str(path), f"the first line must be: {','.join(HEADER)}")
            for cells in filter(None, reader):
                try:
                    rows.add(reader.line_num, cells)
                except ValueError as error:
                    wrong = InputError.at(str(path), str(error), line=reader.line_num)
                    left_out_or_raised(wrong, left_out)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError.at(str(path), f"cannot be read: {error}") from None
    return rows


def _moment(text: str) -> float:
    try:
        return (datetime.fromisoformat(text) - _ZERO).total_seconds()
    except (ValueError, TypeError):
        raise ValueError(
            f"timestamp: {shown(text)} is not a time; write for example 2017-10-09 07:01:55"
        ) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError(f"duration: {shown(text)} is not a number of seconds") from None
    if not 0 < seconds < float("inf"):
        raise ValueError(f"duration: must be above 0, not {shown(text)}")
    return seconds


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"num_gpus: {shown(text)} is not a whole number")
    if not 1 <= int(text[:10]) <= MOST_DEVICES:
        raise ValueError(f"num_gpus: must be from 1 to {MOST_DEVICES}, not {shown(text)}")
    return int(text)
