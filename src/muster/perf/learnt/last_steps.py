"""Where each live job reported from last, and its mean step there."""

from math import exp, log

from muster.perf.learnt.held import Held

WEIGHT = 0.5
"""Weight of a job's newest report in the mean of those from one placement."""


class LastSteps(dict[int, tuple[Held, float]]):
    """By job: what it holds, and s of a step."""

    def add(self, number: int, held: Held, step: float) -> None:
        """Take in a job's report."""
        before, mean = self.get(number, (None, step))
        if before == held:
            step = exp(WEIGHT * log(step) + (1 - WEIGHT) * log(mean))
        self[number] = held, step
