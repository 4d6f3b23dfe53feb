"""Jobs, times and tables in Slurm's words."""

import argparse
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import typer

from muster.wire.api.records import JobRecord

STATES = {
    "waiting": ("PD", "PENDING"),
    "starting": ("CF", "CONFIGURING"),
    "running": ("R", "RUNNING"),
    "restarting": ("R", "RUNNING"),
    "resizing": ("R", "RUNNING"),
    "migrating": ("R", "RUNNING"),
    "preempting": ("CG", "COMPLETING"),
    "stopping": ("CG", "COMPLETING"),
    "succeeded": ("CD", "COMPLETED"),
    "failed": ("F", "FAILED"),
    "cancelled": ("CA", "CANCELLED"),
    "skipped": ("CA", "CANCELLED"),
    "pruned": ("CA", "CANCELLED"),
}
"""Slurm's short and long word for each status."""
_REASONS = {
    "waiting.held": "JobHeldUser",
    "waiting.after": "Dependency",
    "waiting.devices": "Resources",
    "waiting.quota": "QOSGrpGRES",
}
"""Slurm's words for the commonest reasons; any other is Priority."""
_FIELD = re.compile(r"%(\.?)(\d*)([A-Za-z])")
UNKNOWN = "Unknown"

Value = Callable[[JobRecord], str]


class Words(argparse.ArgumentParser):
    """Options of one of Slurm's commands; what it does not know is refused in one line."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong, and exit with 1, as Slurm does."""
        typer.echo(f"{self.prog}: error: {message}", err=True)
        raise typer.Exit(1)


def words_of(name: str) -> Words:
    """A parser for a command; `-h` is free for `--noheader`."""
    return Words(prog=name, add_help=False, allow_abbrev=True)


def short_state(job: JobRecord) -> str:
    return STATES[job.status][0]


def state(job: JobRecord) -> str:
    """`RUNNING`; a job that exceeded its limit is a TIMEOUT."""
    if job.status == "failed" and (job.code == "ended.time" or "time limit" in (job.error or "")):
        return "TIMEOUT"
    return STATES[job.status][1]


def statuses(names: Sequence[str]) -> tuple[str, ...]:
    """Return our statuses for Slurm's states, long or short; ValueError for one that there is not."""
    found: list[str] = []
    for name in names:
        fits = [ours for ours, theirs in STATES.items() if name.upper() in theirs]
        if not fits and name.upper() not in ("TIMEOUT", "TO", "NODE_FAIL", "NF", "SUSPENDED", "S"):
            raise ValueError(f"Invalid job state specified: {name}")
        found += fits
    return tuple(found)


def elapsed(job: JobRecord) -> float:
    """s that a job has run, restarts included."""
    if job.started is None:
        return 0.0
    return max(0.0, (job.ended or time.time()) - job.started)


def short_clock(seconds: float) -> str:
    """`0:03`, `1:02:03`, `2-01:02:03`, as in `squeue`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def long_clock(seconds: float) -> str:
    """`00:00:03`, as in `sacct`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hours:02}:{minutes:02}:{rest:02}"


def time_limit(job: JobRecord, clock: Callable[[float], str]) -> str:
    """The time that a run may take."""
    return "UNLIMITED" if job.time_limit is None else clock(job.time_limit)


def time_left(job: JobRecord) -> str:
    """What is left of it, as in `squeue`."""
    if job.time_limit is None:
        return "UNLIMITED"
    return short_clock(max(0.0, job.time_limit - elapsed(job)))


def stamp(at: float | None) -> str:
    """`2026-11-16T19:00:00`, in local time."""
    return UNKNOWN if at is None else time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))


def reason(job: JobRecord) -> str:
    """Why a job waits, as one of Slurm's words."""
    return _REASONS.get(job.code, "Priority") if job.status == "waiting" else "None"


def place(job: JobRecord) -> str:
    """Where a job runs, or in brackets why it does not."""
    return f"({reason(job)})" if job.status == "waiting" else ",".join(job.nodes)


def exit_code(job: JobRecord) -> str:
    """`1:0`: code and signal."""
    code = job.exit_code if job.exit_code is not None else int(job.status == "failed")
    return f"{code}:0" if code >= 0 else f"0:{-code}"


def formatted(
    pattern: str, headers: Mapping[str, str], rows: Sequence[Mapping[str, str]], *, header: bool
) -> list[str]:
    """Return lines in the format of `squeue -o '%.18i %j'`: `.` aligns right, a number is the width."""
    unknown = [letter for _, _, letter in _FIELD.findall(pattern) if letter not in headers]
    if unknown:
        raise ValueError(f"Invalid job format specification: %{unknown[0]}")

    def line(values: Mapping[str, str]) -> str:
        def cell(found: re.Match[str]) -> str:
            right, width, text = found[1], int(found[2] or 0), values[found[3]]
            fitted = text[:width] if width else text
            return fitted.rjust(width) if right else fitted.ljust(width)

        return _FIELD.sub(cell, pattern).rstrip()

    return [*([line(headers)] if header else []), *(line(row) for row in rows)]
