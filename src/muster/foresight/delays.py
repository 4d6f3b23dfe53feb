"""How long changes take from their order until they take effect, learnt from those of the past.

Processes take their time to start, to join, to leave and to end, and more of it on a busy machine.
What jobs of the same application took is believed, else what any took. The logarithm of the s deviates
as those seen do, among which a guess that is right to a factor of two counts as one.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import median

from muster.foresight.changing import Transition
from muster.foresight.past import PastJob
from muster.model.job import Job

GUESSED = log(2.0)
"""Standard deviation of the logarithm of s that were declared, not seen."""
ENOUGH = 3
"""Changes of an application's jobs that are believed more than those of any."""
NEWEST = 64
"""Latest changes of a kind that count: machines become busy, and files are cached."""
LEAST = 0.05
"""s: less takes no time."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The middle of some s, and the standard deviation of their logarithm."""

    middle: float
    spread: float


NONE = Delay(0.0, 0.0)
ENDING = Delay(2.5, GUESSED)
"""What processes take to end while none was seen: 2.1 to 2.6 s where nothing else runs, measured with
PyTorch (docs/explanation/benchmarks.md, "Simulated against real")."""


class TransitionDelays:
    """What the changes of past and live jobs took."""

    def __init__(self, past: Iterable[PastJob]) -> None:
        seen: defaultdict[tuple[str, Transition], list[float]] = defaultdict(list)
        for each in past:
            for change, seconds in each.changes:
                for what in {_what(each.job), ""}:
                    seen[what, change].append(seconds)
        self._seen = {key: _delay(found[-NEWEST:]) for key, found in seen.items()}
        self._enough = {key for key, found in seen.items() if len(found) >= ENOUGH}

    def of(self, job: Job, change: Transition) -> Delay | None:
        """Return what a change of a job takes; None: none was seen."""
        own = _what(job), change
        return self._seen[own] if own in self._enough else self._seen.get(("", change))


def _what(job: Job) -> str:
    return job.application or " ".join(job.command)


def _delay(seconds: list[float]) -> Delay:
    if median(seconds) <= LEAST:
        return NONE
    logs = [log(max(each, LEAST)) for each in seconds]
    middle = median(logs)
    squares = GUESSED**2 + sum((each - middle) ** 2 for each in logs)
    return Delay(exp(middle), sqrt(squares / (1 + len(logs))))
