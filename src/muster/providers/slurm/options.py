"""What pilots are asked for with."""

from dataclasses import dataclass

GRACE = 120.0
"""s before an allocation ends by which its node must be empty: a checkpoint, with room."""
IDLE = 600.0
"""s: long enough for the next wave of a sweep, short against the queue of a busy centre."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions:
    """The options of `muster up --engine slurm`."""

    partition: str
    least: int = 0
    """Nodes to hold even if nobody needs them."""
    most: int = 1
    """Nodes to hold at most; a node that is being replaced does not count."""
    time: float = 4 * 3600.0
    """s that one allocation lasts."""
    gres: str = ""
    """Of each node, as `--gres`; empty: all it has, the node to ourselves."""
    account: str = ""
    qos: str = ""
    idle: float = IDLE
    """s after which a node that nobody needs is given back."""
    extra: tuple[str, ...] = ()
    """More arguments of `sbatch`."""
