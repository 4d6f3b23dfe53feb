"""Which jobs resemble each other: those of one application, else those of one script and one model."""

from dataclasses import dataclass, field, replace
from posixpath import basename, join
from typing import Any
from zlib import crc32

from muster.daemon.learn.notes import Kin
from muster.daemon.learn.progress import Track
from muster.model.job import Job

_INTERPRETER = "python"

_SILENT = " (silent)"
"""Of the application of jobs that report nothing: their work is in another unit."""


def family_of(job: Job) -> str:
    """The application that its user names, else the script that it runs.

    Two scripts of one name in different folders are different, and so are two users' where no folder
    tells: what is mixed up stays wrong for both, what is kept apart is learnt twice.
    """
    if job.application is not None:
        return job.application
    script = script_of(job)
    if script.startswith("/"):
        return script
    return join(job.program.folder, script) if job.program.folder else f"{job.user}: {script}"


def script_of(job: Job) -> str:
    """The script in its command, or the module, or the program itself."""
    words = list(job.command)
    if job.program.shell:
        words = [word for line in words for word in line.split()]
    for word in words:
        if word.endswith((".py", ".sh")):
            return word
    program = basename(words[0]) if words else ""
    if program.startswith(_INTERPRETER) and "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    return program or job.name


def fingerprint(shape: dict[str, Any]) -> str:
    """Alike for trainings of one model: the sizes of its parameters, its operations, its data."""
    parameters = shape.get("parameters", ())
    sizes = sorted(str(each.get("count")) for each in parameters if isinstance(each, dict))
    text = repr((sizes, shape.get("operations"), shape.get("samples")))
    return f"{crc32(text.encode()):08x}"


@dataclass(slots=True)
class _Family:
    """What is known of the jobs of one script."""

    shape: str = ""
    """The model that was trained last."""
    reports: bool = False


@dataclass(slots=True)
class Applications:
    """What the learner shall call each job, and what else is known of it from its like."""

    _families: dict[str, _Family] = field(default_factory=dict)
    _batches: dict[str, int] = field(default_factory=dict)
    """By application."""
    _ended: dict[str, int] = field(default_factory=dict)
    """Jobs that have come to their end, by application."""
    version: int = 0
    """Changes with what is known."""

    def kin(self, job: Job, track: Track | None = None) -> Kin:
        """Whom the job resembles, from what it has shown, else from the last of its family."""
        family = family_of(job)
        known = self._families.get(family) or _Family()
        own = track or _NOTHING
        shape = "" if job.application is not None else own.shape or known.shape
        reports = own.reported or bool(own.shape) or known.reports
        name = f"{family} {shape}" if shape else family
        if not reports:
            name += _SILENT
        batch = own.batch or job.batch or self._batches.get(name)
        return Kin(name, family, shape, batch, reports)

    def learn(self, kin: Kin) -> None:
        """A job has shown whom it resembles."""
        family = self._families.setdefault(kin.family, _Family())
        before = (family.shape, family.reports, self._batches.get(kin.application))
        family.shape, family.reports = kin.shape, family.reports or kin.reports
        if kin.batch:
            self._batches[kin.application] = kin.batch
        after = (family.shape, family.reports, self._batches.get(kin.application))
        self.version += before != after

    def knows(self, kin: Kin) -> bool:
        """Whether any job of the family has shown anything."""
        return kin.family in self._families

    def end(self, kin: Kin) -> None:
        """A job of these has come to its end."""
        self._ended[kin.application] = self._ended.get(kin.application, 0) + 1

    def have_ended(self, application: str) -> bool:
        """Whether any of these has."""
        return application in self._ended


_NOTHING = Track()


def as_told(job: Job, kin: Kin, work: float | None) -> Job:
    """The job as the learner knows it."""
    return replace(job, application=kin.application, batch=kin.batch, work=work)
