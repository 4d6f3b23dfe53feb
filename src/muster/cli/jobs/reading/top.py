"""`muster top`."""

import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.live import Live

from muster.cli.connect import daemon, error_lines
from muster.cli.render.live import WIDTH, ClusterFrame, live
from muster.cli.render.terminal import on_terminal
from muster.client import ClientError
from muster.wire.api.records import LIVE, ChangeRecord, JobRecord, TaskRecord

if TYPE_CHECKING:
    from muster.client import Client

_MOST_JOBS = 100
"""Jobs to ask for, active ones first: more would cost the daemon more than fits the screen."""
_CHANGES = 200
"""Changes to keep: most of a large gang's only say that a task was ordered."""


class Gathering:
    """Collects what frames show. A job's tasks are requested only when their set has changed."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._tasks: dict[tuple[int, int, str], tuple[TaskRecord, ...]] = {}
        self._changes: deque[ChangeRecord] = deque(maxlen=_CHANGES)

    def frame(self) -> ClusterFrame:
        client = self._client
        page = client.active_jobs(statuses=LIVE, page=_MOST_JOBS)
        jobs = list(page.jobs)
        return ClusterFrame(
            client.status(),
            client.nodes(),
            client.pools(),
            jobs,
            self._tasks_of(jobs),
            self._latest(),
            live=sum(page.counts.get(status, 0) for status in LIVE),
        )

    def _latest(self) -> list[ChangeRecord]:
        """The latest changes; only new ones are requested."""
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
    """Draw frames until Ctrl-C, or one. If the daemon goes away, wait for it."""
    with daemon() as client:
        gathering = Gathering(client)
        frame = gathering.frame()
        console = Console(width=None if on_terminal() else WIDTH, highlight=False)
        if once or not on_terminal():
            console.print(live(frame, time.time(), console.width))
            return
        try:
            with Live(console=console, screen=True, auto_refresh=False) as screen:
                while True:
                    screen.update(live(frame, time.time(), console.width), refresh=True)
                    time.sleep(interval)
                    frame = _next(gathering, frame)
        except KeyboardInterrupt:
            raise typer.Exit from None


def _next(gathering: Gathering, before: ClusterFrame) -> ClusterFrame:
    """The next frame; if the daemon does not answer, the one before with the error."""
    try:
        return gathering.frame()
    except ClientError as error:
        return replace(before, trouble=error_lines(error)[0])
