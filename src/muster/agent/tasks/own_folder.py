"""Where a job's own folder is on a node that does not see the daemon's files."""

from dataclasses import replace
from pathlib import Path

from muster.model.task import TaskOrder

JOBS = "jobs"
"""The folder with the jobs' own, in the agent's."""


def moved(order: TaskOrder, folder: Path) -> TaskOrder:
    """Return an order whose job's own folder, and what is in it, is below this one."""
    if not order.private:
        return order
    own = Path(order.private)
    here = folder / own.name

    def place(text: str) -> str:
        path = Path(text)
        return str(here / path.relative_to(own)) if path.is_relative_to(own) else text

    environ = {
        name: place(text) if name == "MUSTER_CHECKPOINT" else text
        for name, text in order.environ.items()
    }
    return replace(order, private=str(here), folder=place(order.folder), environ=environ)
