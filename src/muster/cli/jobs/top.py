"""`muster top`: one picture of the cluster after another."""

import time
from collections import deque
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.live import Live

from muster.cli.connect import daemon, told
from muster.cli.render.live import WIDTH, ClusterFrame, live
from muster.cli.render.terminal import on_terminal
from muster.client import ClientError
from muster.wire.records import LIVE, ChangeRecord, JobRecord, TaskRecord

if TYPE_CHECKING:
    from muster.client import Client

_MOST_JOBS = 100
"""Jobs that are asked for: more would cost the daemon more than anybody sees of them."""
_CHANGES = 200
"""Changes that are kept: of a large gang most say only that a task was ordered."""


class Gathering:
    """What pictures are made of. A job's tasks are asked for only when their set has changed."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._tasks: dict[tuple[int, int, str], tuple[TaskRecord, ...]] = {}
        self._changes: deque[ChangeRecord] = deque(maxlen=_CHANGES)

    def board(self) -> ClusterFrame:
        """How things stand now."""
        client = self._client
        jobs = list(islice(client.jobs(statuses=LIVE), _MOST_JOBS))
        return ClusterFrame(
            client.status(),
            client.nodes(),
            client.pools(),
            jobs,
            self._tasks_of(jobs),
            self._latest(),
        )

    def _latest(self) -> list[ChangeRecord]:
        """The latest changes; only those are asked for that came since."""
        last = self._changes[-1].seq if self._changes else None
        self._changes.extend(self._client.events(after=last))
        return list(self._changes)

    def _tasks_of(self, jobs: list[JobRecord]) -> dict[int, tuple[TaskRecord, ...]]:
        before, self._tasks = self._tasks, {}
        for job in jobs:
            key = (job.number, job.generation, job.status)
            if job.devices:
                self._tasks[key] = before.get(key) or self._client.job(str(job.number)).tasks
        return {number: tasks for (number, _, _), tasks in self._tasks.items()}


def run_top(*, once: bool, interval: float) -> None:
    """Draw until Ctrl-C, or once. A daemon that goes away and comes back is waited for."""
    with daemon() as client:
        gathering = Gathering(client)
        board = gathering.board()
        console = Console(width=None if on_terminal() else WIDTH, highlight=False)
        if once or not on_terminal():
            console.print(live(board, time.time(), console.width))
            return
        try:
            with Live(console=console, screen=True, auto_refresh=False) as screen:
                while True:
                    screen.update(live(board, time.time(), console.width), refresh=True)
                    time.sleep(interval)
                    board = _next(gathering, board)
        except KeyboardInterrupt:
            raise typer.Exit from None


def _next(gathering: Gathering, before: ClusterFrame) -> ClusterFrame:
    """The next board; the one before, and what is wrong, where the daemon does not answer."""
    try:
        return gathering.board()
    except ClientError as error:
        return replace(before, trouble=told(error)[0])
