"""Every policy by name."""

from muster.policy.afs import Afs
from muster.policy.base import Policy
from muster.policy.drf import Drf
from muster.policy.fifo import Fifo
from muster.policy.finish_time import FinishTime
from muster.policy.max_min import MaxMin
from muster.policy.muster import Muster
from muster.policy.optimus import Optimus
from muster.policy.srtf import Srtf
from muster.policy.tetris import Tetris
from muster.policy.tiresias import Tiresias, TiresiasGittins

_ALL: tuple[Policy, ...] = (
    Muster(),
    Fifo(),
    Srtf(),
    Drf(),
    Tetris(),
    Tiresias(),
    TiresiasGittins(),
    Optimus(),
    Afs(),
    Afs(name="afs-p", known=False),
    MaxMin(),
    FinishTime(),
)

POLICIES: dict[str, Policy] = {policy.name: policy for policy in _ALL}
