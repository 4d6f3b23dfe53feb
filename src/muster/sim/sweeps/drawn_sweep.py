"""A sweep whose loss curves are drawn: `muster sim run --sweep members=27,epochs=27,epoch=2m,rung=4`.

A member's loss after e epochs is floor + gap · e^-rate, with floor, gap and rate drawn from
lognormal distributions and a measurement error of 2 %: some start badly and end well, as real ones do.
"""

from dataclasses import dataclass, replace
from random import Random

from muster.model.job import Job
from muster.model.sweep import Asha, Axis, Sweep
from muster.sim.sweeps.played_sweep import PlayedSweep
from muster.sim.trace.roles import workers

NUMBER = 900_000_000
"""Its own, beyond those of any trace; its members' follow."""


@dataclass(frozen=True, slots=True)
class DrawnSweep:
    """What is asked for. Times in s."""

    members: float = 27
    epochs: float = 27
    epoch: float = 60.0
    devices: float = 1
    """Of each member."""
    at: float = 0.0
    at_most: float = 0
    """Members at once; 0: any number."""
    rung: float = 0
    """Epochs to the first rung; 0: nobody is stopped early."""
    eta: float = 3

    def __post_init__(self) -> None:
        for name in ("members", "epochs", "devices"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.eta < 2:
            raise ValueError("eta must be at least 2")

    def played(self, pool: str, seed: int, pause: float | None) -> PlayedSweep:
        """Return it with curves drawn by the seed."""
        count = int(self.devices)
        job = Job("sweep", user="sweep", pool=pool, roles=workers(count, count))
        job = job if pause is None else replace(job, pause=pause)
        axis = Axis("member", low=0, high=int(self.members) - 1, whole=True)
        asha = Asha(rung=int(self.rung), eta=int(self.eta)) if self.rung else None
        sweep = Sweep(NUMBER, job, (axis,), at_most=int(self.at_most), asha=asha)
        random = Random(f"{seed}/sweep")
        curves = [self._curve(random) for _ in range(int(self.members))]
        return PlayedSweep(self.at, sweep, curves, self.epoch)

    def _curve(self, random: Random) -> list[float]:
        floor, gap, rate = (random.lognormvariate(m, s) for m, s in ((-1, 0.5), (0, 0.5), (-0.7, 0.4)))
        error = random.lognormvariate
        return [
            (floor + gap * epoch**-rate) * error(0, 0.02) for epoch in range(1, int(self.epochs) + 1)
        ]
