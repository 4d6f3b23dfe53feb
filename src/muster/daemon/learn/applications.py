"""Which jobs are alike: a user's of one application, or else of one script and one model."""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from posixpath import basename, join
from typing import Any
from zlib import crc32

from muster.daemon.learn.notes import Kin
from muster.daemon.learn.progress import Track
from muster.model.job import Job
from muster.perf.learnt.declared import order_of

_SILENT = " (silent)"
"""Marks the application of jobs that report nothing: their work has another unit."""


def family_of(job: Job) -> str:
    """Return the application that the user names, or else the script, always of one user.

    What one user's jobs report must not change what is believed of another's: anybody can write any
    application and run any script. Scripts of one name in different folders differ: mixing different
    jobs misleads both, keeping similar jobs apart only learns twice.
    """
    return f"{job.user}: {_kind_of(job)}"


def _kind_of(job: Job) -> str:
    if job.application is not None:
        return job.application
    script = script_of(job)
    if script.startswith("/") or not job.program.folder:
        return script
    return join(job.program.folder, script)


def script_of(job: Job) -> str:
    """Return the script in the job's command, or the module, or the program."""
    return _script_in(job.command, job.program.shell) or job.name


@lru_cache(10_000)
def _script_in(command: tuple[str, ...], shell: bool) -> str:
    """Cached: every cycle asks it of every job."""
    words = [word for line in command for word in line.split()] if shell else list(command)
    for word in words:
        if word.endswith((".py", ".sh")):
            return word
    program = basename(words[0]) if words else ""
    if program.startswith("python") and "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    return program


def fingerprint(shape: dict[str, Any]) -> str:
    """Return a hash that is equal for trainings of one model: parameter sizes, operations, data."""
    parameters = shape.get("parameters", ())
    sizes = sorted(str(each.get("count")) for each in parameters if isinstance(each, dict))
    text = repr((sizes, shape.get("operations"), shape.get("samples")))
    return f"{crc32(text.encode()):08x}"


@dataclass(slots=True)
class _Family:
    """What is known about the jobs of one script."""

    shape: str = ""
    """Of the model trained last."""
    reports: bool = False


@dataclass(slots=True)
class Applications:
    """The application of each job, and what similar jobs have shown."""

    _families: dict[str, _Family] = field(default_factory=dict)
    _batches: dict[str, int] = field(default_factory=dict)
    """By application."""
    _largest: dict[str, int] = field(default_factory=dict)
    """What a free batch may grow to, by application."""
    _ended: dict[str, int] = field(default_factory=dict)
    """Jobs that have completed, by application."""
    version: int = 0
    """Grows when something is learnt."""

    def kin(self, job: Job, track: Track | None = None) -> Kin:
        """Return which jobs this one is like, by what it has shown, or else the last of its family."""
        family = family_of(job)
        known = self._families.get(family) or _Family()
        own = track or Track()
        shape = "" if job.application is not None else own.shape or known.shape
        reports = own.reported or bool(own.shape) or known.reports
        name = f"{family} {shape}" if shape else family
        if not reports:
            name += _SILENT
            if job.application is None and job.duration is not None:
                # A program's name alone says little: `bash` runs anything.
                name += f" declared {order_of(job.duration)}"
        batch = own.batch or job.batch or self._batches.get(name)
        largest = own.free.largest or self._largest.get(name, 0)
        return Kin(name, family, shape, batch, reports, largest)

    def last_shape(self, job: Job) -> str:
        """Return the fingerprint of the model that the last job of its family has trained."""
        known = self._families.get(family_of(job))
        return known.shape if known is not None else ""

    def learn(self, kin: Kin) -> None:
        """Take in what a job has shown about itself."""
        family = self._families.setdefault(kin.family, _Family())
        before = self._known(kin)
        family.shape, family.reports = kin.shape, family.reports or kin.reports
        if kin.batch:
            self._batches[kin.application] = kin.batch
        if kin.largest:
            self._largest[kin.application] = kin.largest
        self.version += before != self._known(kin)

    def _known(self, kin: Kin) -> tuple[object, ...]:
        family, name = self._families[kin.family], kin.application
        return family.shape, family.reports, self._batches.get(name), self._largest.get(name)

    def knows(self, kin: Kin) -> bool:
        """Whether any job of the family has shown anything."""
        return kin.family in self._families

    def end(self, kin: Kin) -> None:
        """Note that such a job has completed."""
        self._ended[kin.application] = self._ended.get(kin.application, 0) + 1
        self.version += 1

    def have_ended(self, application: str, count: int = 1) -> bool:
        """Whether this many jobs of the application have completed."""
        return self._ended.get(application, 0) >= count


def for_learner(job: Job, kin: Kin, work: float | None) -> Job:
    """Return the job as the learner knows it."""
    return replace(job, application=kin.application, batch=kin.batch, work=work)
