"""The global batch in use and the gradient's noise: the same on all members, and part of the state.

A step's ballot holds each member's wish for the batch of the next step. Of several, the one with the
highest number counts; a coordinator's order comes before what members choose by themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from muster.runtime.data.limits import BatchLimits
from muster.runtime.errors import BadTrainingError
from muster.runtime.members.ballot import MemberStatus, Vote
from muster.split.goodput import efficiency, gain

SMOOTHED = 20
"""Measurements over which signal and spread are averaged: where noise is four times the signal, one
from two workers is off by half of it, and the mean of twenty by a tenth."""
RECENT = 3
"""Until then, the n-th measurement weighs n^RECENT: early gradients are far from noisy, and a plain
mean of all would take them for today's (Shamir and Zhang, 2013: polynomial-decay averaging)."""
ENOUGH = 3
"""Measurements before the noise counts as known."""
MOST_NOISE = 1e9
"""Samples; where noise drowns the signal, a larger one is no different."""


@dataclass(slots=True)
class NoiseScale:
    """Smoothed squares of the gradient's signal |G|^2 and of its spread tr(S), per sample.

    Both in units of the squared norm of the step that measured them: gradients shrink by orders of
    magnitude in training, and each measurement counts alike.
    """

    signal: float = 0.0
    spread: float = 0.0
    count: int = 0
    """Measurements so far."""

    def add(self, small: float, few: float, whole: float, many: float) -> None:
        """Add the squared norms of mean gradients over a few samples and over many.

        Unbiased (McCandlish et al., 2018, appendix A.1): a mean over b samples has the expected
        square |G|^2 + tr(S) / b.
        """
        if whole <= 0:
            return
        signal = (many * whole - few * small) / (many - few) / whole
        spread = (small - whole) / (1 / few - 1 / many) / whole
        weight = max(1 / SMOOTHED, (RECENT + 1) / (self.count + RECENT + 1))
        self.signal += weight * (signal - self.signal)
        self.spread += weight * (spread - self.spread)
        self.count += 1

    @property
    def samples(self) -> float | None:
        """The noise scale, in samples; None: unknown yet."""
        if self.count < ENOUGH or self.spread <= 0:
            return None
        return min(MOST_NOISE, self.spread / self.signal) if self.signal > 0 else MOST_NOISE


@dataclass(frozen=True, slots=True, order=True)
class BatchWish:
    """A batch that a member wants from the next step on; later ones count more."""

    order: int = 0
    """Number of the coordinator's order; 0: members choose by themselves."""
    choice: int = 0
    """Counts what they have chosen since."""
    batch: int = 0


class Batching:
    """The batch of a training."""

    def __init__(self, limits: BatchLimits) -> None:
        self.limits = limits
        self.last = BatchWish(batch=limits.own)
        """What was wished for last."""
        self.noise = NoiseScale()
        """As all members know it, from the last ballots."""
        self.found = NoiseScale()
        """As this member has found it since: its next vote tells the others."""
        self.wish = BatchWish()
        """What this member wishes for: the coordinator's order, or its own choice."""

    @property
    def wanted(self) -> int:
        """The batch to use, as far as memory allows."""
        return self.limits.within(self.last.batch)

    def choose(self, batch: int) -> None:
        """Wish for another batch, by this member's own measurements."""
        self.wish = BatchWish(0, self.last.choice + 1, batch)

    def follow(self, votes: Sequence[Vote]) -> None:
        """Adopt what the members wish for, from the ballots of a step."""
        last = self.last.order, self.last.choice
        wishes = [BatchWish(int(v.order), int(v.choice), int(v.batch)) for v in votes if v.batch]
        self.last = max([self.last, *(wish for wish in wishes if (wish.order, wish.choice) > last)])

    def adopt(self, row: Vote | MemberStatus) -> None:
        """Adopt the noise that the first member knows."""
        self.noise = NoiseScale(row.signal, row.spread, int(row.measured))
        self.found = replace(self.noise)

    def enter(self, row: MemberStatus) -> None:
        """Adopt all that a holder of the state knows."""
        self.last = BatchWish(int(row.order), int(row.choice), int(row.batch))
        self.adopt(row)

    def check_whole(self, what: str) -> None:
        """Raise if the batch is free where no worker sees the whole gradient."""
        if self.limits.free:
            raise BadTrainingError(
                f"a free batch is chosen from whole gradients, which no worker has with {what}: "
                "give one number as global_batch"
            )

    def gain(self, batch: int) -> float:
        """Return the worth of a step in steps of the user's own batch; 1 while the noise is unknown."""
        noise, own = self.noise.samples, self.limits.own
        return 1.0 if noise is None else gain(noise, own, max(batch, own))

    def efficiency(self, batch: int) -> float | None:
        """Return the worth of a sample, 1 at the user's own batch; None: unknown."""
        noise, own = self.noise.samples, self.limits.own
        return None if noise is None else efficiency(noise, own, max(batch, own))

    def row(self) -> dict[str, float]:
        """Return what members tell each other when a formation begins."""
        return {**_numbers(self.last), **self._measured()}

    def vote(self) -> dict[str, float]:
        """Return what this member says in a ballot."""
        return {**_numbers(self.wish), **self._measured()} if self.limits.free else {}

    def report(self, seen: float, samples: int, *, noise: bool) -> dict[str, Any]:
        """Return what the report of a step says; `seen`: samples before it; `noise`: tell that, too."""
        if not self.limits.free:
            return {"batch": samples}
        found = self.noise.samples if noise else None
        return {"batch": samples, "noise": found, "done": (seen + samples) / self.limits.own}

    def _measured(self) -> dict[str, float]:
        noise = self.found
        return {"signal": noise.signal, "spread": noise.spread, "measured": noise.count}

    def value(self) -> list[Any]:
        """Return what a checkpoint needs."""
        return [*self.row().values()]

    def restore(self, value: Sequence[Any]) -> None:
        """Restore such a value. Another coordinator counts its orders from 1."""
        batch, _, choice, *noise = value
        self.last = BatchWish(0, int(choice), int(batch))
        self.noise, self.found = NoiseScale(*noise), NoiseScale(*noise)


def _numbers(wish: BatchWish) -> dict[str, float]:
    return {"batch": wish.batch, "order": wish.order, "choice": wish.choice}
