"""What the launcher prints: the tasks' output, a progress line, and a summary at the end."""

import math
import shutil
import threading
from pathlib import Path
from typing import TextIO

from muster.runtime.launch.curve import draw
from muster.runtime.launch.history import History
from muster.runtime.launch.launcher import LaunchOutcome
from muster.wire.tasks.messages import Changed

PLAIN_EVERY = 5.0
"""Seconds between progress lines without a terminal, to keep logs readable."""

INTERRUPTED = "interrupted"
"""The error of a job that the user stopped."""

CLEAR = "\r\x1b[2K"
"""Back to the first column; clear the line."""


class Screen:
    """The tasks print to `out`, the launcher to `err`."""

    def __init__(self, out: TextIO, err: TextIO, quiet: bool = False, logs: Path | None = None) -> None:
        """`quiet`: no progress; `logs`: a folder that also gets each task's output."""
        self._out, self._err, self._quiet, self._logs = out, err, quiet, logs
        self._live = err.isatty() and not quiet
        self._lock = threading.Lock()
        self._files: dict[str, TextIO] = {}
        self._shown = ""
        self._told = 0
        self._last_plain, self._last_line = 0.0, ""

    def output(self, task: str, line: str) -> None:
        """Print a task's line; those of the first worker without its name, as in a single process."""
        with self._lock:
            self._log(task, line)
            self._clear()
            print(line if task == "worker-0" else f"[{task}] {line}", file=self._out, flush=True)
            self._draw()

    def progress(self, changes: list[Changed], line: str, now: float) -> None:
        """Update the progress line; print new changes of members."""
        if self._quiet:
            return
        with self._lock:
            self._clear()
            for change in changes[self._told :]:
                print(describe_change(change), file=self._err, flush=True)
            self._told = len(changes)
            if self._live:
                self._shown = line
            elif now - self._last_plain >= PLAIN_EVERY and line != self._last_line:
                self._last_plain, self._last_line = now, line
                print(line, file=self._err, flush=True)
            self._draw()

    def say(self, line: str) -> None:
        """Print a line of the launcher."""
        with self._lock:
            self._clear()
            print(line, file=self._err, flush=True)
            self._draw()

    def close(self) -> None:
        """Clear the progress line, close the logs."""
        with self._lock:
            self._clear()
            self._shown = ""
            for file in self._files.values():
                file.close()
            self._files, self._logs = {}, None

    def _log(self, task: str, line: str) -> None:
        if self._logs is None:
            return
        if task not in self._files:
            self._files[task] = (self._logs / f"{task}.log").open("a", encoding="utf-8", buffering=1)
        print(line, file=self._files[task])

    def _clear(self) -> None:
        if self._live and self._shown:
            print(CLEAR, end="", file=self._err, flush=True)

    def _draw(self) -> None:
        if self._live and self._shown:
            room = shutil.get_terminal_size().columns - 1
            print(self._shown[:room], end="", file=self._err, flush=True)


def describe_progress(history: History, now: float) -> str:
    """Describe step, epoch, loss, samples/s, workers and formation in one line."""
    if history.step < 0:
        return "running the first step" if history.members else "starting workers"
    return (
        f"step {history.step:,} · epoch {history.epoch} · loss {history.loss:.4g} · "
        f"{history.rate(now):,.0f} samples/s · {count_members(history.members)} · "
        f"formation {history.formation}"
    )


def describe_change(change: Changed) -> str:
    """Describe a change of members and its cost in one line."""
    causes = {"start": "started", "plan": "resized", "failure": "after a failure"}
    regrouped = change.cause == "failure" and not change.lost  # a busy member was waited for
    parts = (
        f"formation {change.formation} at step {change.step:,}: {count_members(change.members)}",
        "regrouped" if regrouped else causes.get(change.cause, ""),
        f"lost {', '.join(change.lost)}" if change.lost else "",
        f"paused for {change.pause * 1e3:,.0f} ms" if change.cause != "start" else "",
        change.sync,
    )
    return ", ".join(filter(None, parts))


def count_members(members: tuple[str, ...]) -> str:
    """Count workers, and servers if any."""
    servers = sum(name.startswith("server-") for name in members)
    counts = [(len(members) - servers, "worker"), (servers, "server")]
    return " and ".join(_count(count, word) for count, word in counts if count)


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _without_a_step(seen: History) -> str:
    resumed = max((change.step for change in seen.changes), default=0)
    if resumed:
        return f"already complete at step {resumed:,}: nothing left to train"
    return "finished without reporting a step (does the script use muster.init or Training?)"


def summary(outcome: LaunchOutcome) -> list[str]:
    """Return the lines to print at the end."""
    seen = outcome.history
    lines = [f"failed: {outcome.error}"] if outcome.error not in ("", INTERRUPTED) else []
    if seen.step < 0:
        return lines or [outcome.error or _without_a_step(seen)]
    seconds = seen.latest - (seen.began or 0.0)
    lines.append(
        f"{'stopped' if outcome.error else 'finished'} at step {seen.step:,}, epoch {seen.epoch}, "
        f"loss {seen.loss:.4g}; {seen.samples:,} samples in {seconds:,.1f} s, {seen.mean_rate:,.0f}/s"
    )
    lines += [f"  {describe_change(change)}" for change in seen.changes]
    lines += [f"  lost {task}: {how}" for task, how in seen.lost.items()]
    if seen.refusal:
        lines.append(f"  no more workers were started: {seen.refusal}")
    lines += [
        f"  {one.straggler} was {one.factor:.1f} times slower per sample at step {one.step:,}"
        for one in seen.stragglers
    ]
    if seen.saved:
        last = max(seen.saved, key=lambda one: one.step)
        saved = _count(len(seen.saved), "checkpoint")
        lines.append(f"  {saved}, the last at step {last.step:,}: {last.path}")
    odd = sum(not math.isfinite(loss) for loss in seen.losses.values())
    if odd:
        lines.append(f"  {odd} of {len(seen.losses)} losses are not finite")
    curve = draw(seen.losses)
    return [*lines, "loss by step", *curve] if curve else lines
