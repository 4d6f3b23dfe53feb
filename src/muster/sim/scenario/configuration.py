"""Everything a result depends on, as plain values: equal values give equal results to the digit.

Files count by their contents, not their paths, and a generator by its parameters, not its spelling. So
a result is stored under its hash and found again by it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from muster import __version__
from muster.files.errors import InputError
from muster.sim.disturbance import UNDISTURBED, Disturbance
from muster.sim.engine import INTERVAL
from muster.sim.scenario.run import digest
from muster.sim.sweeps.drawn_sweep import DrawnSweep
from muster.sim.trace.open_trace import TraceKind, kind_of
from muster.sim.trace.spec import parse_spec

NOISE = 0.05
"""Default standard deviation of the logarithm of what jobs measure of themselves."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Mean exponential times between failures of a node and to its repair, in s."""

    mtbf: float
    repair: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One simulation. Times in s; paths as given."""

    cluster: str
    trace: str
    """A file or a generator, as docs/reference/traces.md writes them."""
    policy: str
    seed: int = 0
    # What is known
    oracle: bool = False
    noise: float = NOISE
    # What jobs are
    rigid: bool = False
    most: int | None = None
    free_batch: bool = False
    speeds: str | None = None
    first: int | None = None
    sort: bool = False
    skip: bool = False
    one_pool: bool = False
    # What changes cost, and when they are decided
    pause: float | None = None
    """None: each job's own."""
    restarts: bool = False
    release: float = 0.0
    checkpoint: float = 600.0
    interval: float = INTERVAL
    rounds: bool = False
    strategy: str = "adaptive"
    migrate: bool = True
    # What the world does to them
    interference: Disturbance = UNDISTURBED
    failures: Failures | None = None
    true_links: tuple[tuple[str, float], ...] = ()
    learn_links: bool = True
    incidents: str | None = None
    until: float | None = None
    sweep: DrawnSweep | None = None
    """A sweep beside the trace's jobs."""

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits; results of one hash are equal."""
        return digest(self.values(), self.seed)

    def values(self) -> dict[str, Any]:
        """Return what the result depends on, except the seed: files by their SHA-256."""
        plain = asdict(self)
        del plain["seed"]
        if self.oracle:  # nothing is measured
            del plain["noise"]
        if not self.true_links:  # links are as the file claims: nothing is learnt of them
            del plain["true_links"], plain["learn_links"]
        if self.sweep is None:
            del plain["sweep"]
        for name, path in self.files().items():
            plain[name] = f"sha256:{fingerprint(Path(path))}"
        if kind_of(self.trace) is TraceKind.GENERATOR:
            spec = parse_spec(self.trace)
            name = self.trace.partition(":")[0].strip()
            plain["trace"] = {"generator": name, **asdict(spec.parameters)}
        return {"version": __version__, **plain}

    def files(self) -> dict[str, str]:
        """Return its files and folders by field."""
        named = {"cluster": self.cluster, "speeds": self.speeds, "incidents": self.incidents}
        if kind_of(self.trace) is not TraceKind.GENERATOR:
            named["trace"] = self.trace
        return {name: path for name, path in named.items() if path is not None}

    def shown(self) -> Mapping[str, Any]:
        """Return the values with the file names, which are not part of the hash."""
        return {**self.values(), "files": self.files()}


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file, or of all files of a folder and their names."""
    if path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        whole = hashlib.sha256()
        for each in files:
            whole.update(f"{each.relative_to(path).as_posix()} {_of_file(each)}\n".encode())
        return whole.hexdigest()
    return _of_file(path)


def _of_file(path: Path) -> str:
    try:
        state = path.stat()
        return _digested(path, state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise InputError.at(str(path), error.strerror or str(error)) from None


@lru_cache(maxsize=4096)
def _digested(path: Path, changed: int, size: int) -> str:
    """Hash each state of a file once: every policy and seed of a comparison needs it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
