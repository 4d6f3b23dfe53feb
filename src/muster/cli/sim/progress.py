"""Progress of simulations, on standard error."""

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from muster.sim.scenario.configuration import Configuration


class Bars:
    """One bar for all simulations, if there are several, and one for each in progress."""

    def __init__(self, *, quiet: bool, total: int = 1, done: int = 0) -> None:
        """Draws nothing when quiet, or when standard error is not a terminal."""
        hidden = quiet or not sys.stderr.isatty()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
            TimeElapsedColumn(),
        )
        # Transient: only the answer stays on the screen.
        self._bars = Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden)
        self._whole: TaskID | None = None
        if total > 1:
            self._whole = self._bars.add_task("all", total=total, completed=done, unit="simulations")
        self._each: dict[tuple[str, int], TaskID] = {}

    def __enter__(self) -> "Bars":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def began(self, configuration: Configuration, jobs: int) -> None:
        label = f"{configuration.policy}, seed {configuration.seed}"
        self._each[_key(configuration)] = self._bars.add_task(label, total=jobs, unit="jobs")

    def moved(self, configuration: Configuration, done: int) -> None:
        self._bars.update(self._each[_key(configuration)], completed=done)

    def ended(self, configuration: Configuration) -> None:
        task = self._each.pop(_key(configuration), None)
        if task is not None:
            self._bars.remove_task(task)
        if self._whole is not None:
            self._bars.advance(self._whole)


def _key(configuration: Configuration) -> tuple[str, int]:
    return configuration.policy, configuration.seed
