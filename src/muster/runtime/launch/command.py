"""The command `python -m muster.runtime`."""

import argparse
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from muster.runtime.launch.history import History
from muster.runtime.launch.launcher import FINISH_GRACE, Launch, LaunchOutcome, threads_each
from muster.runtime.launch.screen import INTERRUPTED, Screen, describe_progress, summary
from muster.runtime.settings import BadSettingError, from_environment

EXAMPLES = """\
examples:
  train with three workers that share this node's cores
      python -m muster.runtime --workers 3 train.py --epochs 5
  start with one worker, grow to three at step 100, shrink to two at step 300, without a restart
      python -m muster.runtime --workers 1 --at 100=3 --at 300=2 train.py
  use a GPU and the CPU together; shares of the batch follow their speeds
      python -m muster.runtime --workers 2 --devices cuda:0,cpu train.py
  two workers, and a server that only sums gradients
      python -m muster.runtime --workers 2 --servers 1 --sync dedicated train.py
  replace lost workers; restart from the last checkpoint if all are lost
      python -m muster.runtime --workers 3 --replace --restarts 3 train.py

The script trains with muster.Training(...).run() or muster.init(); `python train.py` runs the same
training with one worker. Ctrl-C stops after the current step and saves a checkpoint if the script asks
for checkpoints; press it twice to stop at once. Exit codes: 0 finished, 1 failed, 2 invalid command
line, 130 interrupted."""

REFRESH = 0.2
"""Seconds between progress updates."""

STOP_GRACE = 20.0
"""Seconds after Ctrl-C for the step and its checkpoint, before signals end the tasks."""

INTERRUPTED_CODE = 130
"""128 + SIGINT, as in shells."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print one line, without the usage."""
        self.exit(2, f"{self.prog}: {message} (see --help)\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse and check a command line; `SystemExit` with 2 and one line when it is wrong."""
    parser = _make_parser()
    options = parser.parse_args(arguments)
    problem = _find_problem(options)
    if problem:
        parser.error(problem)
    options.at.sort()
    most = max([options.workers, *(count for _, count in options.at)])
    options.threads = options.threads or threads_each(most, os.environ)
    return options


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    options = parse(arguments)
    if options.log_dir:
        options.log_dir.mkdir(parents=True, exist_ok=True)
    screen = Screen(sys.stdout, sys.stderr, options.quiet, options.log_dir)
    # SIGTERM from a batch system and a closed terminal act like Ctrl-C.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    interrupted = False
    with _launch(options, screen) as job:
        try:
            outcome = _watch(job, options, screen)
        except KeyboardInterrupt:
            interrupted = True
            outcome = _stop(job, screen)
    screen.close()
    if outcome.error and outcome.history.trace:
        print(outcome.history.trace, file=sys.stderr)
    if not options.quiet or outcome.error:
        print(*(summary(outcome) if not options.quiet else [outcome.error]), sep="\n", file=sys.stderr)
    if options.plot:
        _plot(outcome.history, options.plot)
    return INTERRUPTED_CODE if interrupted else outcome.code


def _launch(options: argparse.Namespace, screen: Screen) -> Launch:
    return Launch(
        options.script,
        options.args,
        options.workers,
        options.servers,
        deadline=options.deadline,
        sync=options.sync,
        owners=options.owners,
        balance=options.shares == "balanced",
        threads=options.threads,
        devices=options.devices,
        replace=options.replace,
        restarts=options.restarts,
        on_output=screen.output,
        environ=_environ(options.resume_from, options.batch),
        finish_grace=options.finish_grace,
    )


def _environ(resume_from: Path | None, batch: str = "") -> dict[str, str]:
    given = {"MUSTER_RESUME_FROM": str(resume_from.absolute())} if resume_from else {}
    return {**os.environ, **given, **({"MUSTER_BATCH": batch} if batch else {})}


def _watch(job: Launch, options: argparse.Namespace, screen: Screen) -> LaunchOutcome:
    """Show progress and apply --at until the job ends."""
    changes, refusal = list(options.at), ""
    while job.outcome is None:
        job.watch(lambda seen: bool(changes) and seen.step >= changes[0][0], REFRESH)
        if job.history.refusal != refusal:
            refusal = job.history.refusal
            if refusal:
                screen.say(f"no more workers are started: {refusal}")
        while changes and job.history.step >= changes[0][0]:
            job.resize(changes.pop(0)[1])
        _show(job, screen)
    outcome = job.wait(options.finish_grace + STOP_GRACE)
    _show(job, screen)
    if changes:
        screen.say(f"--at {changes[0][0]}={changes[0][1]}: the training ended before that step")
    return outcome


def _show(job: Launch, screen: Screen) -> None:
    now = time.monotonic()
    screen.progress(*job.look(lambda seen: (list(seen.changes), describe_progress(seen, now), now)))


def _stop(job: Launch, screen: Screen) -> LaunchOutcome:
    """Stop, then SIGTERM, then SIGKILL."""
    screen.say("stopping after the current step; press Ctrl-C again to stop at once")
    try:
        job.stop(INTERRUPTED)
        job.wait_over(STOP_GRACE)
    except KeyboardInterrupt:
        screen.say("stopping at once")
    job.end_tasks()
    return LaunchOutcome(INTERRUPTED, job.history)


def _plot(history: History, path: Path) -> None:
    """Plot the loss by step as a PNG."""
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    axes.plot(list(history.losses), list(history.losses.values()), linewidth=1)
    for change in history.changes[1:]:
        axes.axvline(change.step, linestyle=":", linewidth=0.8, color="grey")
        axes.annotate(str(len(change.members)), (change.step, 1), xycoords=("data", "axes fraction"))
    axes.set(xlabel="step (dotted: changes of members, with their number)", ylabel="loss")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _find_problem(given: argparse.Namespace) -> str:
    """Return what is wrong across options; empty if nothing."""
    steps = [step for step, _ in given.at]
    checks = {
        f"no such script: {given.script}": not given.script.is_file(),
        "--at names the same step twice": len(set(steps)) < len(steps),
        "--sync dedicated needs --servers": given.sync == "dedicated" and not given.servers,
        f"--resume-from: {given.resume_from} does not exist": given.resume_from
        and not given.resume_from.exists(),
        f"--log-dir: {given.log_dir} is a file": given.log_dir and given.log_dir.is_file(),
        f"--plot: no folder for {given.plot}": given.plot and not given.plot.absolute().parent.is_dir(),
        "--plot needs matplotlib, which is not installed (pip install matplotlib)": given.plot
        and importlib.util.find_spec("matplotlib") is None,
    }
    return next((problem for problem, is_so in checks.items() if is_so), "")


def _whole(least: int) -> Callable[[str], int]:
    def parse_number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return parse_number


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def _change(text: str) -> tuple[int, int]:
    step, _, workers = text.partition("=")
    try:
        return _whole(0)(step), _whole(1)(workers)
    except argparse.ArgumentTypeError as problem:
        raise argparse.ArgumentTypeError(f"{text!r} is not STEP=WORKERS, such as 100=3") from problem


def _batch(text: str) -> str:
    try:
        return from_environment({"MUSTER_BATCH": text}).batch
    except BadSettingError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range such as 128..2048") from None


def _devices(text: str) -> tuple[str, ...]:
    devices = tuple(text.split(","))
    for device in devices:
        try:
            from_environment({"MUSTER_DEVICE": device})
        except BadSettingError:
            device = ""
        if not device:
            raise argparse.ArgumentTypeError(f"{text!r} is not a list such as cuda:0,cuda:1,cpu")
    return devices


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m muster.runtime",
        description="Train a script on this node with any number of workers, changed while it runs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--workers", type=_whole(1), default=1, metavar="N", help="initial number of workers (1)")
    add("--servers", type=_whole(0), default=0, metavar="N", help="parameter servers (0)")
    at = "change the number of workers at a step; repeatable"
    add("--at", type=_change, action="append", default=[], metavar="STEP=WORKERS", help=at)
    deadline = "seconds after which a task that does not answer counts as lost (30)"
    add("--deadline", type=_seconds, default=30.0, metavar="S", help=deadline)
    sync = (
        "how to sum gradients: whatever is predicted to be fastest (auto), a ring, parameters owned by "
        "the workers (sharded) or by the servers (dedicated)"
    )
    add("--sync", choices=("auto", "ring", "sharded", "dedicated"), default="auto", help=sync)
    owners = "what owners of parameters do: sum gradients, or also apply the update (reduce)"
    add("--owners", choices=("reduce", "update"), default="reduce", help=owners)
    shares = "of the batch: by the measured speeds of the workers (balanced), or the same for all"
    add("--shares", choices=("balanced", "equal"), default="balanced", help=shares)
    batch = "let the global batch grow: from the script's own to the largest, such as 128..2048"
    add("--batch", type=_batch, default="", metavar="OWN..LARGEST", help=batch)
    add("--threads", type=_whole(1), metavar="N", help="threads per task (cores / workers)")
    devices = "devices of the workers in turn, such as cuda:0,cpu (chosen by the runtime)"
    add("--devices", type=_devices, default=(), metavar="LIST", help=devices)
    restarts = "restarts from the last checkpoint when all workers are lost (0)"
    add("--restarts", type=_whole(0), default=0, metavar="N", help=restarts)
    grace = "seconds for what the script does after its training (600)"
    add("--finish-grace", type=_seconds, default=FINISH_GRACE, metavar="S", help=grace)
    add("--replace", action="store_true", help="start a new worker for each one that is lost")
    resume = "start from the checkpoints of another training: its folder, or one of its files"
    add("--resume-from", type=Path, metavar="PATH", help=resume)
    add("--log-dir", type=Path, metavar="DIR", help="also write each task's output to DIR/TASK.log")
    add("--plot", type=Path, metavar="FILE.png", help="plot the loss to a file (needs matplotlib)")
    add("--quiet", action="store_true", help="show the tasks' output only")
    add("script", type=Path, metavar="train.py", help="the training script")
    add("args", nargs=argparse.REMAINDER, metavar="...", help="arguments of the script")
    return parser
