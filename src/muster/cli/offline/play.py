"""`muster play`: jobs on a cluster, cycle by cycle, or one cycle on a snapshot; with the reasons."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from muster.cli.render.answers import as_json as json_text
from muster.cli.render.picture import legend, letters, picture
from muster.cli.render.words import clock, counted, describe, moment
from muster.core.cycle.cycle import Decisions
from muster.core.cycle.cycle_state import Rules
from muster.core.state.admit import refuse
from muster.core.why.words import tell, where
from muster.files.cluster.cluster_file import ClusterFile, load_listed
from muster.files.errors import InputError
from muster.files.job.job_file import load_job
from muster.files.job.pipeline import is_pipeline, read_pipeline
from muster.files.snapshot import CycleSnapshot, is_snapshot, load_snapshot
from muster.model.cluster import Cluster
from muster.model.decision import Decision, Kind
from muster.model.job import Job
from muster.model.view import Phase, View
from muster.policy.registry import POLICIES
from muster.sim.engine import Frame
from muster.sim.play import play
from muster.sim.truth import Arrival

_WIDTHS = (7, 8, 23)
"""Columns of the log before the last: time, decision, job."""
_HEADING = (f"{'TIME':>7}", "DECISION", "JOB", "WHERE AND WHY")
_STYLES = {
    Kind.START: "green",
    Kind.RESIZE: "cyan",
    Kind.MIGRATE: "magenta",
    Kind.PREEMPT: "red",
    Kind.WAIT: "yellow",
}


def play_file(
    path: Path,
    jobs: list[Path],
    *,
    policy: str | None,
    strategy: str,
    every: float,
    as_json: bool,
    console: Console,
) -> None:
    """Play jobs on a cluster file, or decide once on a snapshot."""
    if is_snapshot(path):
        if jobs:
            raise InputError.at(str(path), "is a snapshot, which has its jobs; give no job files")
        play_snapshot(load_snapshot(path), policy, as_json=as_json, console=console)
        return
    if not jobs:
        raise InputError.at(str(path), "is a cluster file; give at least one job file")
    if as_json:
        raise InputError.at("--output", "is text for a cluster file; json is for snapshots")
    run_play(path, jobs, policy=policy or "fifo", strategy=strategy, every=every, console=console)


def run_play(
    cluster: Path, jobs: list[Path], *, policy: str, strategy: str, every: float, console: Console
) -> None:
    """Load all files, then play until every job has been placed."""
    loaded = load_listed(cluster)
    asked = load_jobs(jobs, loaded)
    arrivals = [Arrival(i * every, job) for i, job in enumerate(asked)]
    headline = (
        f"{loaded.cluster.name}: {devices_text(loaded.cluster)}; "
        f"{counted(len(asked), 'job')}, policy {policy}, strategy {strategy}"
    )
    _head(headline, console)
    rules = Rules(strategy=strategy)
    frames = play(loaded.cluster, loaded.pools, arrivals, POLICIES[policy], rules)
    _show(frames, asked, console)


def play_snapshot(
    snapshot: CycleSnapshot, policy: str | None, *, as_json: bool, console: Console
) -> None:
    """Decide once on a snapshot, and print the decisions."""
    decided = snapshot.decide(policy)
    if as_json:
        answer = [decision_record(snapshot.view, each) for each in decided.decisions]
        console.print(json_text(answer), soft_wrap=True, markup=False)
        return
    view = snapshot.view
    headline = (
        f"{view.cluster.name}: {devices_text(view.cluster)}; {counted(len(view.jobs), 'job')}, "
        f"policy {policy or snapshot.policy}, at {moment(snapshot.now)}"
    )
    _head(headline, console)
    for decision in decided.decisions:
        _log("now", view, decision, console)
    _log_migrations(decided, view, console)
    unchanged = len(view.jobs) - len(decided.decisions)
    console.print(f"\n{counted(unchanged, 'job')} unchanged", style="dim")


def decision_record(view: View, decision: Decision) -> dict[str, Any]:
    return {
        "job": view.jobs[decision.job].job.name,
        "decision": decision.kind,
        "generation": decision.generation,
        "placement": where(decision.placement) if decision.placement else None,
        "code": decision.reason.code,
        "reason": tell(decision.reason),
    }


def load_jobs(paths: list[Path], loaded: ClusterFile) -> list[Job]:
    """Load job files; reject jobs that could never run on the cluster, and repeated names."""
    jobs: list[Job] = []
    for path, job in ((file, each) for file in paths for each in _jobs_in(file)):
        if any(job.name == other.name for other in jobs):
            raise InputError.at(str(path), f"another file has a job named {job.name!r}")
        refusal = refuse(job, loaded.cluster, loaded.pools)
        if refusal is not None:
            near = refusal.nearest
            hint = f" (nearest that could: {near.field}: {near.value})" if near else ""
            raise InputError.at(str(path), f"can never run on this cluster: {refusal.why}{hint}")
        # What is in none of the files is a daemon's business.
        known = {other.name for other in jobs}
        after = tuple(each for each in job.after if each.job in known)
        jobs.append(replace(job, number=len(jobs) + 1, after=after))
    return jobs


def _jobs_in(path: Path) -> list[Job]:
    """The jobs of a file: one, or several that come after each other."""
    if is_pipeline(path):
        return [each.job for each in read_pipeline(path).jobs.values()]
    return [load_job(path)]


def devices_text(cluster: Cluster) -> str:
    """Nodes and devices of a cluster: `30 nodes, 120 P100`."""
    types = (f"{count} {each}" for each, count in cluster.devices_by_type().items())
    return ", ".join([counted(len(cluster.nodes), "node"), *types])


def _show(frames: Iterable[Frame], jobs: list[Job], console: Console) -> None:
    """Print the decisions, a picture at the busiest moment, and one when the last job is placed."""
    last_code: dict[int, str] = {}
    unplaced = {job.number: job.name for job in jobs}
    busiest: Frame | None = None
    for frame in frames:
        for decision in frame.decided.decisions:
            # A job that keeps waiting for the same reason is not shown again.
            code = decision.reason.code
            if decision.kind is not Kind.WAIT or last_code.get(decision.job) != code:
                last_code[decision.job] = code
                _log(clock(frame.now), frame.before, decision, console)
        _log_migrations(frame.decided, frame.before, console)
        if busiest is None or _used(frame.after) > _used(busiest.after):
            busiest = frame
        for decision in frame.decided.decisions:
            if decision.kind is Kind.START:
                unplaced.pop(decision.job, None)
        if not unplaced and not _anyone_waits(frame.after):
            _close(busiest, frame, letters(jobs), console)
            return
    console.print(f"\nnever placed: {', '.join(sorted(unplaced.values()))}", style="red")


def _head(headline: str, console: Console) -> None:
    console.print(Text(headline, style="bold"))
    console.print()
    _line(console, *(Text(word, style="bold") for word in _HEADING))


def _log_migrations(decided: Decisions, view: View, console: Console) -> None:
    for report in decided.migrations:
        console.print(Text(f"{'':>7}  {describe(report, view)}", style="dim"), soft_wrap=True)


def _log(time: str, view: View, decision: Decision, console: Console) -> None:
    why = Text(f"{where(decision.placement)}  " if decision.placement else "")
    why.append(f"{decision.reason.code}: {tell(decision.reason)}", style="dim")
    kind = Text(decision.kind, style=_STYLES[decision.kind])
    name = Text(view.jobs[decision.job].job.name, style="bold")
    _line(console, Text(f"{time:>7}"), kind, name, why)


def _line(console: Console, *cells: Text) -> None:
    """Print cells in columns; on a terminal the last wraps inside its own, in a pipe it does not."""
    if not console.is_terminal:
        padded = [cell.plain.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=False)]
        console.print("  ".join([*padded, cells[-1].plain]), soft_wrap=True)
        return
    grid = Table.grid(padding=(0, 2))
    for width in _WIDTHS:
        grid.add_column(width=width, no_wrap=True)
    grid.add_column()
    grid.add_row(*cells)
    console.print(grid)


def _close(busiest: Frame, last: Frame, letter_of: dict[int, str], console: Console) -> None:
    frames = [("all placed", last)]
    if busiest.now != last.now:
        frames.insert(0, ("busiest", busiest))
    for title, frame in frames:
        console.print(f"\n{title}, at {clock(frame.now)}", style="bold")
        console.print(picture(frame.after, letter_of))
        console.print(legend(frame.after, letter_of))


def _used(view: View) -> int:
    return sum(slot.bits.bit_count() for state in view.jobs.values() for slot in state.held())


def _anyone_waits(view: View) -> bool:
    return any(state.phase is Phase.WAITING for state in view.jobs.values())
