"""How far jobs and functions are: one line, where somebody can see it."""

import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from muster.client.handles.handle import Handle
from muster.wire.api.records import OVER, JobRecord

if TYPE_CHECKING:
    from rich.progress import Progress

EVERY = 0.5
"""s between two looks."""


class _Line(Protocol):
    """Where a line of progress is shown."""

    def show(self, done: float, total: float, text: str) -> None: ...
    def close(self) -> None: ...


def progress(*what: "Handle | Future[Any] | Iterable[Handle | Future[Any]]") -> None:
    """Wait until jobs or functions have ended, and show how far they are: of several, how many have
    ended; of one training, its steps and loss. Silent where neither a terminal nor a notebook shows
    it."""
    items = [each for group in what for each in _flat(group)]
    with progress_of(items):
        for each in items:
            if isinstance(each, Handle):
                each.wait()
            else:
                _ended(each)


@contextmanager
def progress_of(items: Sequence["Handle | Future[Any]"]) -> Iterator[None]:
    """Show how far they are for the length of the block."""
    line = _line()
    if line is None or not items:
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_refresh, args=(line, items, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        line.show(*state_of(items))
        line.close()


def visible() -> bool:
    """Return whether a terminal or a notebook would show progress."""
    return in_notebook() or sys.stderr.isatty()


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    found = sys.modules.get("IPython")
    shell = found.get_ipython() if found is not None else None
    return shell is not None and hasattr(shell, "kernel")


def state_of(items: Sequence["Handle | Future[Any]"]) -> tuple[float, float, str]:
    """Return what is done, of how much, and the line about it."""
    if len(items) == 1 and isinstance(items[0], Handle):
        return _training(items[0].record())
    counts = Counter(_status(each) for each in items)
    done = sum(counts[status] for status in OVER)
    words = [f"{counts[status]} {status}" for status in ("running", "waiting", "failed", "cancelled")]
    told = [word for word in words if not word.startswith("0 ")]
    return done, len(items), ", ".join([f"{done}/{len(items)}", *told])


def _training(job: JobRecord) -> tuple[float, float, str]:
    words = [f"job {job.number} ({job.name}) {job.status}"]
    words += (
        [f"step {job.step}" + (f"/{job.steps}" if job.steps else "")] if job.step is not None else []
    )
    words += [f"loss {job.loss:.4g}"] if job.loss is not None else []
    words += [job.reason] if job.status == "waiting" and job.reason else []
    if job.status in OVER:
        return 1, 1, ", ".join(words)
    return job.step or 0, job.steps or 0, ", ".join(words)


def _status(item: "Handle | Future[Any]") -> str:
    if isinstance(item, Handle):
        status = item.record().status
        return status if status in OVER or status == "waiting" else "running"
    if not item.done():
        return "running" if item.running() else "waiting"
    if item.cancelled():
        return "cancelled"
    return "failed" if item.exception() else "succeeded"


def _refresh(line: _Line, items: Sequence["Handle | Future[Any]"], over: threading.Event) -> None:
    while not over.is_set():
        line.show(*state_of(items))
        over.wait(EVERY)


def _flat(group: Any) -> Iterable["Handle | Future[Any]"]:
    return (group,) if isinstance(group, Handle | Future) else group


def _ended(future: "Future[Any]") -> None:
    from concurrent.futures import wait

    wait([future])


def _line() -> _Line | None:
    if in_notebook():
        return _NotebookLine()
    return _TerminalLine() if sys.stderr.isatty() else None


class _TerminalLine:
    """A bar of rich's."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._bars: Progress = Bars(*columns, console=Console(stderr=True))
        self._bar = self._bars.add_task("", total=None)
        self._bars.start()

    def show(self, done: float, total: float, text: str) -> None:
        self._bars.update(self._bar, completed=done, total=total or None, description=text)

    def close(self) -> None:
        self._bars.stop()


class _NotebookLine:
    """A bar of the browser's own: it needs no extension of the notebook."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html: Any = HTML
        self._shown: Any = display(HTML(""), display_id=True)

    def show(self, done: float, total: float, text: str) -> None:
        bar = f'<progress value="{done}" max="{total}"></progress> ' if total else ""
        self._shown.update(self._html(f"{bar}<code>{escape(text)}</code>"))

    def close(self) -> None:
        """Leave the last line where it is."""
