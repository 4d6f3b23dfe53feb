"""Forecasts of a demo that was run for real, read from its store and kept as JSON lines."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from muster.daemon.foresight.account import kept_of
from muster.foresight.kept import FINISH
from muster.store.store import open_store

MOST = 1_000
"""More forecasts than a demo makes."""


class Outcome(msgspec.Struct, frozen=True):
    """A forecast of a job's finish, and what came of it. Times in s from when it was made."""

    seed: int
    job: str
    mark: str
    """When in the job's life it was made: one of `foresight.marks.MARKS`."""
    after: float
    """s from the job's submission until it was made."""
    low: float
    middle: float
    high: float
    came: float
    known: bool
    """Whether users were told it; one with a wider interval is unknown."""

    @property
    def kind(self) -> str:
        """What the job trains."""
        return self.job.partition("-")[0]

    @property
    def place(self) -> str:
        """Where the end lay: before the interval, within it or beyond."""
        return "early" if self.came < self.low else "late" if self.came > self.high else "within"

    @property
    def error(self) -> float:
        """The error of the median over the time that was left."""
        return (self.middle - self.came) / self.came


def read_outcomes(folder: Path, seed: int) -> Iterator[Outcome]:
    """Yield the scored forecasts of every job's finish, from the demo's folder."""
    store = open_store(str(folder / "data" / "muster.db"))
    try:
        rows = [row for row in store.forecasts(limit=MOST) if row.what == FINISH]
        jobs = {row.number: store.job(row.number) for row in rows}
    finally:
        store.close()
    for kept in map(kept_of, rows):
        job = jobs[kept.number]
        if job is None or kept.came is None or kept.came <= kept.made:
            continue
        said, made = kept.said, kept.made
        low, middle, high = said.low - made, said.middle - made, said.high - made
        after, known = made - job.submitted, said.is_known(made)
        yield Outcome(
            seed, job.name, kept.mark, after, low, middle, high, kept.came - made, known=known
        )


def load(path: Path) -> list[Outcome]:
    """Return what was kept; nothing where there is no file."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=Outcome) for line in path.read_bytes().splitlines()]


def append(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Keep the outcomes of a run that has ended."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(msgspec.json.encode(each) + b"\n" for each in outcomes))
