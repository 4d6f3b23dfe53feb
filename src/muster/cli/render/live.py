"""A cluster at one moment, to be looked at: who holds which device, how far jobs are, what was decided.

A pure function of records, for `muster top`, the demo and whoever else draws one frame after another.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from muster.cli.render.changes import telling
from muster.cli.render.job_table import finish, loss, workers
from muster.cli.render.picture import FREE, GONE, letter_of_number, style
from muster.cli.render.words import clock
from muster.wire.records import (
    OVER,
    ChangeRecord,
    JobRecord,
    NodeRecord,
    PoolRecord,
    QuotaRecord,
    StatusRecord,
    TaskRecord,
)

MOST_NODES, MOST_JOBS, MOST_CHANGES = 16, 20, 8
"""Rows of each part: together they fit a screen of fifty lines."""

WIDTH = 160
"""Columns of a picture that no terminal bounds."""
_BAR = 16
"""Columns of a bar of workers; a job that asks for more has each of its columns stand for several."""
_PROGRESS = 10
_COLUMNS = {
    "": 0,
    "ID": 0,
    "NAME": 0,
    "POOL": 90,
    "STATUS": 0,
    "WORKERS": 0,
    " ": 0,
    "PROGRESS": 0,
    "LOSS": 0,
    "RATE": 115,
    "FINISH": 0,
    "WHY": 106,
}
"""Columns of the jobs, and how wide the screen must be for each."""
_UNKNOWN = "■"
"""A device held by a job whose tasks are not known."""
_STATUS_STYLES = {"running": "green", "succeeded": "green", "waiting": "yellow", "failed": "red"}


@dataclass(frozen=True, slots=True)
class ClusterFrame:
    """What is known at a moment. `tasks` by the number of their job, as far as they were asked for."""

    status: StatusRecord
    nodes: Sequence[NodeRecord] = ()
    pools: Sequence[PoolRecord] = ()
    jobs: Sequence[JobRecord] = ()
    tasks: Mapping[int, Sequence[TaskRecord]] = field(default_factory=dict)
    changes: Sequence[ChangeRecord] = ()
    """Newest last."""
    trouble: str = ""
    """Why this is not how things stand now."""


def live(board: ClusterFrame, now: float, width: int = WIDTH) -> RenderableType:
    """The moment as a picture: headline, devices, jobs, pools, and what happened last.

    `width`: columns of the screen; on a narrow one the less important of the jobs' are left out.
    """
    parts: list[RenderableType] = [_headline(board, now), Text()]
    parts += [_devices(board), Text(), _jobs(board.jobs, now, width)]
    if any(pool.quotas for pool in board.pools):
        parts += [Text(), _pools(board.pools)]
    changes = telling(board.changes)
    if changes:
        parts += [Text(), _changes(changes)]
    return Group(*parts)


def _headline(board: ClusterFrame, now: float) -> Text:
    status = board.status
    used = status.devices - status.free
    figures = (
        f"policy {status.policy}",
        f"{used} of {status.devices} devices in use",
        f"{status.running} running, {status.pending} waiting",
        f"cycle {status.cycles:,} took {status.last_cycle * 1000:.0f} ms",
        f"up {clock(now - status.since)}",
    )
    text = Text.assemble((status.cluster, "bold"), " · ", " · ".join(figures))
    for trouble in filter(None, (status.trouble, board.trouble)):
        text.append(f"\n{trouble}", style="bold red")
    return text


def _grid(*headings: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=True, justify="right" if heading in right else "left")
    return table


def _devices(board: ClusterFrame) -> Table:
    """A row for each node, a letter for each device: that of the job which holds it."""
    holders = {
        (task.node, device): letter_of_number(number)
        for number, tasks in board.tasks.items()
        for task in tasks
        if task.status != "ended"
        for device in task.devices
    }
    table = _grid("NODE", "STATE", "TYPE", "DEVICES", "FREE", right=("FREE",))
    for node in board.nodes[:MOST_NODES]:
        drawn = Text()
        for device, bit in enumerate(node.bitmap):
            _draw(drawn, node, bit, holders.get((node.name, device)))
        table.add_row(node.name, node.state, node.device_type, drawn, str(node.free))
    rest = board.nodes[MOST_NODES:]
    if rest:
        free = sum(node.free for node in rest)
        table.add_row(f"and {len(rest):,} more", "", "", "", f"{free:,}", style="dim")
    return table


def _draw(drawn: Text, node: NodeRecord, bit: str, letter: str | None) -> None:
    if bit == ".":
        drawn.append(FREE if node.state == "up" else GONE, style="dim")
    elif letter is None:
        drawn.append(_UNKNOWN)
    else:
        drawn.append(letter, style=style(letter))


def _jobs(jobs: Sequence[JobRecord], now: float, width: int) -> RenderableType:
    if not jobs:
        return Text("no jobs: muster run train.py", style="dim")
    shown = [heading for heading, least in _COLUMNS.items() if width >= least]
    table = _grid(*map(str.strip, shown), right=("ID", "LOSS", "RATE", "FINISH"))
    ordered = sorted(jobs, key=_standing)
    for job in ordered[:MOST_JOBS]:
        cells = _cells(job, now)
        table.add_row(*(cells[heading] for heading in shown))
    if len(ordered) > MOST_JOBS:
        table.add_row("", "", f"and {len(ordered) - MOST_JOBS:,} more", style="dim")
    return table


def _cells(job: JobRecord, now: float) -> dict[str, str | Text]:
    """A job's cells by their headings; blanks tell apart those without one."""
    letter = letter_of_number(job.number)
    return {
        "": Text(letter if job.devices else "", style=style(letter)),
        "ID": str(job.number),
        "NAME": Text(job.name),
        "POOL": Text(job.pool),
        "STATUS": Text(job.status, style=_STATUS_STYLES.get(job.status, "cyan")),
        "WORKERS": _crew(job, style(letter)),
        " ": workers(job),
        "PROGRESS": _progress(job),
        "LOSS": loss(job),
        "RATE": "-" if job.rate is None else f"{job.rate:,.0f}/s",
        "FINISH": finish(job, now),
        "WHY": Text(job.code, style="dim"),
    }


def _standing(job: JobRecord) -> tuple[int, int]:
    """Those with devices first, then those that wait, then those that are over; in each the oldest."""
    return (2 if job.status in OVER else 0 if job.devices else 1), job.number


def _crew(job: JobRecord, colour: str) -> Text:
    """A bar for the workers it has, dots up to the most it asks for."""
    if job.status in OVER:
        return Text()
    most = max(_most(job.asked), job.workers)
    each = -(-most // _BAR) or 1
    full = -(-job.workers // each)
    return Text.assemble(("▇" * full, colour), (FREE * (-(-most // each) - full), "dim"))


def _most(asked: str) -> int:
    """Of `4`, `1..8` or `1..8+2` the most workers."""
    digits = asked.partition("+")[0].rpartition("..")[2]
    return int(digits) if digits.isdigit() else 0


def _progress(job: JobRecord) -> Text:
    if job.step is None:
        return Text("-", style="dim")
    if not job.steps:
        return Text(f"step {job.step:,}")
    part = min(1.0, job.step / job.steps)
    full = int(part * _PROGRESS)
    bar = ("━" * full, "green"), ("╌" * (_PROGRESS - full), "dim")
    return Text.assemble(*bar, f" {part:>4.0%}")


def _pools(pools: Sequence[PoolRecord]) -> Table:
    figures = ("ENTITLED", "RUNNING", "WAITING")
    table = _grid("POOL", "TYPE", "USED", "", *figures, right=figures)
    for pool in pools:
        for quota in pool.quotas:
            table.add_row(
                Text(pool.name),
                quota.device_type,
                _use(quota),
                str(quota.used),
                str(quota.entitled),
                str(pool.running),
                str(pool.pending),
            )
    return table


def _use(quota: QuotaRecord) -> Text:
    """Devices in use within the entitlement, beyond it (borrowed), and what it leaves unused."""
    each = -(-max(quota.entitled, quota.used) // _BAR) or 1
    within = min(quota.used, quota.entitled) // each
    beyond = max(0, quota.used - quota.entitled) // each
    idle = max(0, quota.entitled - quota.used) // each
    return Text.assemble(("▇" * within, "green"), ("▇" * beyond, "yellow"), (FREE * idle, "dim"))


def _changes(changes: Sequence[ChangeRecord]) -> Table:
    table = _grid("AT", "JOB", "WHAT HAPPENED")
    shown = changes[-MOST_CHANGES:]
    # A long text must not take from those before it.
    table.columns[0].min_width = len("00:00:00")
    table.columns[1].min_width = min(20, max((len(each.job or "") for each in shown), default=0))
    for change in shown:
        at = time.strftime("%H:%M:%S", time.localtime(change.at))
        table.add_row(at, Text(change.job or ""), Text(change.text))
    return table
