"""What pilots are asked for with."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from muster.files.errors import InputError, one_of
from muster.files.source.quantity import parse_counts, parse_duration
from muster.providers.settings import EngineSettings

GRACE = 120.0
"""s before an allocation ends by which its node must be empty: a checkpoint, with room."""
IDLE = 600.0
"""s: long enough for the next wave of a sweep, short against the queue of a busy centre."""
HOURS = 4 * 3600.0
"""s that an allocation lasts, unless told otherwise."""
AWAY = 600.0
"""s: longer than the restart of a daemon or of its machine."""
OWN = ("gres", "account", "qos", "idle", "away", "sbatch")
"""Names of `--engine-option`."""
LEAST_TIME = 60.0
"""s: Slurm counts in minutes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions:
    """The options of `muster up --engine slurm`."""

    partition: str
    least: int = 0
    """Nodes to hold even if nobody needs them."""
    most: int = 1
    """Nodes to hold at most; a node that is being replaced does not count."""
    time: float = HOURS
    """s that one allocation lasts."""
    gres: str = ""
    """Of each node, as `--gres`; empty: all it has, the node to ourselves."""
    account: str = ""
    qos: str = ""
    idle: float = IDLE
    """s after which a node that nobody needs is given back."""
    extra: tuple[str, ...] = ()
    """More arguments of `sbatch`."""
    away: float = AWAY
    """s without a daemon after which a node without tasks gives itself back."""

    @property
    def grace(self) -> float:
        """Return the s before the end at which a node departs, replaced or not."""
        return min(GRACE, self.time / 4)


def read_options(settings: EngineSettings) -> SlurmOptions:
    """Return the options; InputError is one line."""
    own = settings.extra
    for name in own:
        if name not in OWN:
            raise InputError.at("--engine-option", one_of(name, "option of Slurm", OWN))
    if settings.partition is None:
        raise InputError.at("--partition", "say whose nodes to use; `sinfo` lists Slurm's partitions")
    if settings.nodes is None:
        raise InputError.at("--nodes", "say how many nodes to hold, for example --nodes 0..4")
    counts = _parsed("--nodes", settings.nodes, parse_counts)
    if not counts.most:
        raise InputError.at("--nodes", "must be at least 1 in the end, for example --nodes 0..4")
    time = HOURS if settings.time is None else settings.time
    if time < LEAST_TIME:
        raise InputError.at("--time", "Slurm counts in minutes; write for example 4h")
    return SlurmOptions(
        partition=settings.partition,
        least=counts.least,
        most=counts.most,
        time=time,
        gres=own.get("gres", ""),
        account=own.get("account", ""),
        qos=own.get("qos", ""),
        idle=_duration(own, "idle", IDLE),
        extra=_parsed("--engine-option sbatch", own.get("sbatch", ""), _words),
        away=_duration(own, "away", AWAY),
    )


def _duration(own: Mapping[str, str], name: str, default: float) -> float:
    return _parsed(f"--engine-option {name}", own[name], parse_duration) if name in own else default


def _words(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text))


def _parsed(option: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise InputError.at(option, str(error)) from None
