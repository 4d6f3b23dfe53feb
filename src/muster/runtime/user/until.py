"""What scripts write to end a training by its loss."""

from collections.abc import Callable
from math import isfinite

from muster.ending import PATIENCE, Ending, Trend, parse_share
from muster.runtime.errors import BadTrainingError

Met = Callable[[float], bool]
"""A script's own condition on an epoch's mean loss."""
OWN = "a condition of its own"
"""What a training with such a condition says of its end."""


class LossName:
    """`muster.loss < 0.1` builds an ending."""

    def __lt__(self, bound: float) -> Ending:
        if not isinstance(bound, int | float) or not isfinite(bound):
            raise BadTrainingError(f"muster.loss < {bound!r}: compare the loss with a number")
        return Ending(bound=float(bound))

    __le__ = __lt__


loss = LossName()


def converged(decrease: float | str, *, patience: int = PATIENCE) -> Ending:
    """End once the mean loss of an epoch falls by less than `decrease` in `patience` epochs in a row.

    `decrease`: a share of the first epoch's loss, 0.005 or "0.5%".
    """
    try:
        share = parse_share(decrease) if isinstance(decrease, str) else float(decrease)
        return Ending(decrease=share, patience=patience)
    except (TypeError, ValueError) as problem:
        raise BadTrainingError(
            f"muster.converged({decrease!r}, patience={patience!r}): {problem}; write for example "
            'muster.converged("0.5%", patience=3)'
        ) from None


class EpochJudge:
    """Judges each epoch's mean loss in turn, where no training state keeps the trend."""

    def __init__(self, ending: Ending) -> None:
        self._ending, self._trend = ending, Trend()

    def __call__(self, loss: float) -> bool:
        self._trend = self._ending.after(self._trend, loss)
        return self._ending.is_met(self._trend, loss)
