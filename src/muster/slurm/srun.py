"""`srun` within a batch script: runs a command in the tasks of the job, and prints what they print."""

import os
import signal
import sys
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.slurm.batch import HUB
from muster.slurm.lines import TaskPeer, dialled

VALUED = {
    "n": "ntasks",
    "N": "nodes",
    "c": "cpus-per-task",
    "o": "output",
    "e": "error",
    "w": "nodelist",
    "D": "chdir",
    "J": "job-name",
    "t": "time",
    "p": "partition",
    "G": "gpus",
    "m": "distribution",
    "A": "account",
    "i": "input",
    "x": "exclude",
}
"""Options with a value, by letter."""
_MORE_VALUED = """
cpu-bind cpus-per-gpu export gpus-per-node gpus-per-task gpu-bind gres hint kill-on-bad-exit mem
mem-bind mem-per-cpu mem-per-gpu mpi ntasks-per-node open-mode qos reservation signal threads-per-core
wait container-image container-mounts container-name container-workdir het-group jobid
"""
FLAGS = {
    "l": "label",
    "u": "unbuffered",
    "K": "kill-on-bad-exit",
    "W": "wait",
    "O": "overcommit",
    "s": "oversubscribe",
    "v": "verbose",
    "Q": "quiet",
    "E": "preserve-env",
}
LONG_FLAGS = frozenset(
    (*FLAGS.values(), "exact", "exclusive", "overlap", "no-kill", "pty", "multi-prog")
)
LONG_VALUED = frozenset((*VALUED.values(), *_MORE_VALUED.split()))
NOT_SENSIBLE = {
    "pty": "a step has no terminal; use muster exec",
    "multi-prog": "one step runs one program; start several with srun ... &",
    "het-group": "there are no heterogeneous jobs",
    "jobid": "a step belongs to the job that its script is",
    "container-image": "give it to the whole job: container in a job file",
}
BAD_INPUT = 2


class SrunError(ValueError):
    """What cannot be run as a step, in one line."""


@dataclass(frozen=True, slots=True)
class JobStep:
    """What to run, and where."""

    argv: tuple[str, ...]
    ntasks: int = 0
    """0: all tasks of the job."""
    hosts: tuple[str, ...] = ()
    label: bool = False
    output: str = ""
    error: str = ""
    cwd: str = ""


def parse(words: Sequence[str]) -> JobStep:
    """Read the words of `srun`; SrunError for what cannot be done here."""
    given: dict[str, str] = {}
    left = list(words)
    while left and left[0].startswith("-") and left[0] != "--":
        name, value = _option(left)
        given[name] = value
    argv = tuple(left[1:] if left[:1] == ["--"] else left)
    if not argv:
        raise SrunError("no command; write for example srun python train.py")
    for name, why in NOT_SENSIBLE.items():
        if name in given:
            raise SrunError(f"--{name}: {why}")
    count = given.get("ntasks", "0")
    if not count.isdigit():
        raise SrunError(f"--ntasks: {count!r} is no number")
    hosts = tuple(filter(None, given.get("nodelist", "").split(",")))
    files = (given.get("output", ""), given.get("error", ""))
    tasks = int(count) or _by_nodes(given)
    return JobStep(argv, tasks, hosts, "label" in given, *files, given.get("chdir", ""))


def _by_nodes(given: dict[str, str]) -> int:
    """Return the tasks of `-N 2 --ntasks-per-node 4`; 0: all."""
    nodes, each = given.get("nodes", ""), given.get("ntasks-per-node", "")
    if not each.isdigit():
        return 0
    count = nodes if nodes.isdigit() else os.environ.get("SLURM_NNODES", "1")
    return int(count) * int(each)


def _option(left: list[str]) -> tuple[str, str]:
    """Take an option with its value from the words."""
    word = left.pop(0)
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        if equals or name in LONG_FLAGS:
            _check(name, LONG_FLAGS | LONG_VALUED)
            return name, value
        _check(name, LONG_VALUED)
        return name, _value(word, left)
    letter, value = word[1], word[2:].removeprefix("=")
    if letter in FLAGS:
        return FLAGS[letter], value
    _check(letter, VALUED, dash="-")
    return VALUED[letter], value or _value(word, left)


def _check(name: str, known: Container[str], dash: str = "--") -> None:
    if name not in known:
        raise SrunError(f"{dash}{name} is not an option that a step can have here")


def _value(word: str, left: list[str]) -> str:
    if not left:
        raise SrunError(f"{word} has no value")
    return left.pop(0)


def run(step: JobStep, peer: TaskPeer) -> int:
    """Run a step; return the highest exit code of its tasks."""
    peer.send(
        argv=list(step.argv),
        ntasks=step.ntasks,
        hosts=list(step.hosts),
        cwd=step.cwd or str(Path.cwd()),
        env=dict(os.environ),
        files={"output": step.output, "error": step.error},
    )
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _: peer.send(signal=int(number)))
    code = 0
    while (message := peer.receive()) is not None:
        if message.get("error"):
            print(f"srun: {message['error']}", file=sys.stderr, flush=True)
        if "data" in message:
            _print(message["data"], message["procid"], message["stream"], label=step.label)
        code = max(code, int(message.get("code", 0)))
        if message.get("over") and "code" in message:
            return code
    return code or 1


def _print(text: str, procid: int, stream: str, *, label: bool) -> None:
    file = sys.stderr if stream == "err" else sys.stdout
    shown = "".join(f"{procid}: {line}" for line in text.splitlines(keepends=True)) if label else text
    file.write(shown)
    file.flush()


def main() -> int:
    """Run `srun` with the words of the command line; return its exit code."""
    where = os.environ.get(HUB)
    try:
        step = parse(sys.argv[1:])
        if where is None:
            raise SrunError("runs only within a batch script; elsewhere: muster run -f -- COMMAND")
    except SrunError as error:
        print(f"srun: {error}", file=sys.stderr)
        return BAD_INPUT
    host, _, port = where.rpartition(":")
    return run(step, dialled(host, int(port), os.environ.get("MUSTER_TOKEN", "")))


if __name__ == "__main__":
    sys.exit(main())
