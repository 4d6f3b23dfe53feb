"""`muster play`: jobs on a cluster, cycle by cycle, with the reasons."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from muster.cli.render.picture import legend, letters, picture
from muster.cli.render.words import clock, describe
from muster.core.cycle.cycle_state import Rules
from muster.core.state.admit import refuse
from muster.core.why.words import tell, where
from muster.files.cluster.cluster_file import ClusterFile, load_cluster
from muster.files.errors import InputError
from muster.files.job.job_file import load_job
from muster.model.decision import Decision, Kind
from muster.model.job import Job
from muster.model.view import Phase, View
from muster.policy.registry import POLICIES
from muster.sim.engine import Frame
from muster.sim.play import play
from muster.sim.truth import Arrival

_WIDTHS = (7, 8, 23)
"""Columns of the log before the last: time, decision, job."""
_STYLES = {
    Kind.START: "green",
    Kind.RESIZE: "cyan",
    Kind.MIGRATE: "magenta",
    Kind.PREEMPT: "red",
    Kind.WAIT: "yellow",
}


def run_play(
    cluster: Path, jobs: list[Path], *, policy: str, strategy: str, every: float, console: Console
) -> None:
    """Load everything before anything is shown, then play until every job has been placed."""
    loaded = load_cluster(cluster)
    asked = load_jobs(jobs, loaded)
    arrivals = [Arrival(i * every, job) for i, job in enumerate(asked)]
    console.print(Text(_headline(loaded, asked, policy, strategy), style="bold"))
    console.print()
    rules = Rules(strategy=strategy)
    frames = play(loaded.cluster, loaded.pools, arrivals, POLICIES[policy], rules)
    _show(frames, asked, console)


def load_jobs(paths: list[Path], loaded: ClusterFile) -> list[Job]:
    """Every job file, refused where no state of the cluster could run it or two share a name."""
    jobs: list[Job] = []
    for path in paths:
        job = load_job(path)
        if any(job.name == other.name for other in jobs):
            raise InputError.at(str(path), f"a job called {job.name!r} was given already")
        refusal = refuse(job, loaded.cluster, loaded.pools)
        if refusal is not None:
            near = refusal.nearest
            hint = f" (nearest that could: {near.field}: {near.value})" if near else ""
            raise InputError.at(str(path), f"can never run on this cluster: {refusal.why}{hint}")
        jobs.append(replace(job, number=len(jobs) + 1))
    return jobs


def _headline(loaded: ClusterFile, jobs: list[Job], policy: str, strategy: str) -> str:
    cluster = loaded.cluster
    types = ", ".join(f"{count} {each}" for each, count in cluster.devices_by_type().items())
    return (
        f"{cluster.name}: {len(cluster.nodes)} nodes, {types}; "
        f"{len(jobs)} jobs, policy {policy}, strategy {strategy}"
    )


def _show(frames: Iterable[Frame], jobs: list[Job], console: Console) -> None:
    """The log of decisions, a picture at the busiest moment, and one when the last job is placed."""
    heading = (f"{'TIME':>7}", "DECISION", "JOB", "WHERE AND WHY")
    _line(console, *(Text(word, style="bold") for word in heading))
    told: dict[int, str] = {}
    unplaced = {job.number: job.name for job in jobs}
    busiest: Frame | None = None
    for frame in frames:
        for decision in frame.decided.decisions:
            _log(frame, decision, told, console)
        for report in frame.decided.migrations:
            console.print(
                Text(f"{'':>7}  {describe(report, frame.before)}", style="dim"), soft_wrap=True
            )
        if busiest is None or _used(frame.after) > _used(busiest.after):
            busiest = frame
        for decision in frame.decided.decisions:
            if decision.kind is Kind.START:
                unplaced.pop(decision.job, None)
        if not unplaced and not _anyone_waits(frame.after):
            _close(busiest, frame, letters(jobs), console)
            return
    console.print(f"\nnever placed: {', '.join(sorted(unplaced.values()))}", style="red")


def _log(frame: Frame, decision: Decision, told: dict[int, str], console: Console) -> None:
    """One decision; a job that goes on waiting for the same reason is not told again."""
    if decision.kind is Kind.WAIT and told.get(decision.job) == decision.reason.code:
        return
    told[decision.job] = decision.reason.code
    why = Text(f"{where(decision.placement)}  " if decision.placement else "")
    why.append(f"{decision.reason.code}: {tell(decision.reason)}", style="dim")
    kind = Text(decision.kind, style=_STYLES[decision.kind])
    name = frame.before.jobs[decision.job].job.name
    _line(console, Text(f"{clock(frame.now):>7}"), kind, Text(name, style="bold"), why)


def _line(console: Console, *cells: Text) -> None:
    """Cells in columns; the last folds inside its own on a terminal, and runs on in a pipe."""
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
