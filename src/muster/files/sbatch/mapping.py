"""From the directives of a batch script to a job file's fields; what has no place there is named."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from muster.files.job.job_entries import SIGNALS
from muster.files.sbatch.amounts import check_array, seconds_of_time
from muster.files.sbatch.directives import (
    BadDirectiveError,
    Directive,
    directives_of,
    parse_words,
)
from muster.files.sbatch.sizes import Asked, UnmappedError, sized
from muster.files.sbatch.unmapped import HANDLED, NOTED, REFUSED
from muster.files.source.faults import Fault, FaultsError

_SIGNAL = re.compile(r"(?:[RB]+:)?(?:SIG)?([A-Z0-9]+)(?:@(\d+))?", re.IGNORECASE)
_NUMBERS = {"10": "USR1", "12": "USR2", "1": "HUP", "2": "INT", "3": "QUIT", "14": "ALRM", "18": "CONT"}
_WARNED = 60
"""s before the limit at which Slurm sends a signal by default."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 63
_ENDED = {"afterok": "ok", "afterany": "any", "afternotok": "failed"}
"""How a job must have ended, in Slurm's words and in ours."""


@dataclass(slots=True)
class BatchJob:
    """A batch script as a job."""

    source: str
    """What its lines are told with: the script's path."""
    record: dict[str, Any] = field(default_factory=dict)
    """Fields of a job file, without the command."""
    output: str = ""
    """Patterns of the files for what it prints; empty: its log alone."""
    error: str = ""
    truncate: bool = False
    """Whether those files are emptied when it starts."""
    left_out: list[tuple[int, str]] = field(default_factory=list)
    """Lines, and what of them has no place here."""
    flags: frozenset[str] = frozenset()
    """Options of the command line that are about submitting it."""

    @property
    def notes(self) -> list[str]:
        """What was left out, by line."""
        return [_told(self.source, line, text) for line, text in sorted(self.left_out)]


def read_batch(path: Path, words: Sequence[str] = ()) -> BatchJob:
    """Read a batch script; `words` are options of the command line, which win over the script's.

    FaultsError has a line for each directive that cannot be mapped.
    """
    return batch_of(path.read_text(encoding="utf-8", errors="replace"), str(path), path.stem, words)


def batch_of(text: str, name: str, stem: str, words: Sequence[str] = ()) -> BatchJob:
    """Return the job of a script's text; `name` is what its faults are told with."""
    given, bad = directives_of(text)
    faults: list[tuple[int, str]] = [(error.line, str(error)) for error in bad]
    try:
        given += parse_words(words)[0]
    except BadDirectiveError as error:
        faults.append((error.line, str(error)))
    asked = {each.option: each for each in given}
    job = BatchJob(name, {"name": _plain(stem)}, flags=frozenset(asked.keys() & HANDLED))
    for part in _PARTS:
        try:
            part(job, asked)
        except UnmappedError as error:
            faults.append((error.directive.line, f"{error.directive}: {error}"))
    for each in asked.values():
        if each.option in REFUSED:
            faults.append((each.line, f"{each} cannot be mapped: {REFUSED[each.option]}"))
        elif each.option in NOTED:
            _note(job, each, f"is left out: {NOTED[each.option]}")
    if faults:
        raise _refusal(faults, name)
    return job


def _refusal(faults: Iterable[tuple[int, str]], name: str) -> FaultsError:
    ordered = sorted(faults)
    lines = [_told(name, line, problem) for line, problem in ordered]
    return FaultsError([Fault((), problem) for _, problem in ordered], lines)


def _told(name: str, line: int, text: str) -> str:
    """`job.sbatch:7: ...`; of the command line without a place."""
    return f"{name}:{line}: {text}" if line else text


def _note(job: BatchJob, directive: Directive, why: str) -> None:
    job.left_out.append((directive.line, f"{directive} {why}"))


def _size(job: BatchJob, asked: Asked) -> None:
    job.record |= sized(asked)
    nodes = asked.get("nodes")
    if nodes is not None and nodes.value != "1":
        _note(job, nodes, "counts tasks; on which nodes they run is decided when they start")


def _names(job: BatchJob, asked: Asked) -> None:
    if "job-name" in asked:
        job.record["name"] = _plain(asked["job-name"].value)
    if "partition" in asked:
        first, _, more = asked["partition"].value.partition(",")
        job.record["pool"] = first
        if more:
            _note(job, asked["partition"], f"is a pool, of which a job has one: {first}")
    if "chdir" in asked:
        job.record["folder"] = str(Path(asked["chdir"].value).absolute())


def _plain(text: str) -> str:
    """Return a name that a job can have; digits alone would be a number."""
    name = _NOT_IN_NAMES.sub("-", text).strip("-._")
    return (name if re.search("[A-Za-z]", name) else f"job-{name}".rstrip("-"))[:_LONGEST_NAME]


def _limit(job: BatchJob, asked: Asked) -> None:
    if "no-requeue" in asked:
        job.record["losses"] = "0"
    seconds = _tried(asked["time"], seconds_of_time) if "time" in asked else None
    if seconds is not None:
        job.record["time"] = f"{seconds}s"


def _warning(job: BatchJob, asked: Asked) -> None:
    directive = asked.get("signal")
    if directive is None:
        return
    found = _SIGNAL.fullmatch(directive.value)
    name = f"SIG{_NUMBERS.get(found[1], found[1].upper())}" if found else ""
    if found is None or name not in SIGNALS:
        raise UnmappedError(directive, f"use one of {', '.join(SIGNALS)}")
    if "time" not in asked:
        _note(job, directive, "is left out: without --time there is no limit to warn of")
        return
    job.record["warn"] = f"{name}@{found[2] or _WARNED}s"


def _files(job: BatchJob, asked: Asked) -> None:
    job.output = asked["output"].value if "output" in asked else ""
    job.error = asked["error"].value if "error" in asked else job.output
    job.truncate = "open-mode" in asked and asked["open-mode"].value.startswith("t")


def _variables(job: BatchJob, asked: Asked) -> None:
    job.record["slurm_env"] = "true"
    export = asked.get("export")
    if export is None:
        return
    env: dict[str, str | None] = {}
    for each in export.value.split(","):
        name, equals, value = each.partition("=")
        if name in ("ALL", "NONE", "NIL") and not equals:
            what = "passes PATH and the virtual environment, nothing else; add to it with --env NAME"
            _note(job, export, f"({name}) {what}")
        elif name:
            env[name] = value if equals else None
    if env:
        job.record["env"] = env


def _array(job: BatchJob, asked: Asked) -> None:
    if "array" in asked:
        _tried(asked["array"], check_array)
        job.record["sweep"] = {"array": asked["array"].value}


def _mail(job: BatchJob, asked: Asked) -> None:
    for option in ("mail-type", "mail-user"):
        if option in asked:
            _note(
                job,
                asked[option],
                "is left out: mail is not sent; use a webhook, --notify of muster run",
            )


def _dependency(job: BatchJob, asked: Asked) -> None:
    directive = asked.get("dependency")
    if directive is not None:
        job.record["after"] = _tried(directive, _after)


def _after(text: str) -> list[str]:
    """`afterok:12:13,afterany:14` as `after` of a job file."""
    if "?" in text:
        raise ValueError("a job waits for all of its dependencies; write , in place of ?")
    found = []
    for each in text.split(","):
        kind, *jobs = each.split(":")
        if kind not in _ENDED or not jobs:
            raise ValueError(f"{kind!r} cannot be mapped; use {', '.join(_ENDED)} with a job")
        found += [f"{job}:{_ENDED[kind]}" for job in jobs]
    return found


def _tried(directive: Directive, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(directive.value)
    except ValueError as error:
        raise UnmappedError(directive, str(error)) from None


_PARTS = (_size, _names, _limit, _warning, _files, _variables, _array, _mail, _dependency)
