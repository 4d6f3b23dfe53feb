"""What workers do together beside the step: every worker calls it in the same place of its loop.

Members change only when a batch is handed out (`Loop.batches`), so all workers that are in the same
section (`ResultLog`) call the same collectives. If one of them is lost, the survivors regroup and call
it again; a step that is open is redone afterwards, and reads its results from the log.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from torch import Tensor

from muster.runtime.errors import BadTrainingError, BrokenGroupError
from muster.runtime.step.engine import StepEngine

Means = float | dict[str, float]


class OpenStep(Protocol):
    """Where the user's loop is."""

    def settle(self) -> bool:
        """Commit a step that is applied; return whether one is open that is not, or is void."""


class Together:
    """The collectives of one worker's user code."""

    def __init__(self, engine: StepEngine, step: OpenStep) -> None:
        self.engine, self._step = engine, step

    def call(self, attempt: Callable[[], Any]) -> Any:
        """Return the result of a collective, which `attempt` makes by `engine.exchange`."""
        step_open, log = self._step.settle(), self.engine.log
        while not log.is_known:
            try:
                log.add(attempt())
            except BrokenGroupError:
                self.engine.mend(step_open)
        return log.read()

    def mean(self, value: Any, n: float) -> Means:
        """Return the mean over all workers, weighted by n; of each number of a mapping."""
        values = dict(value) if isinstance(value, Mapping) else {"": value}
        mine = {name: [_number(each) * n if n else 0.0, float(n)] for name, each in values.items()}
        found = means_of(self.call(lambda: _summed(self.engine.exchange(mine))))
        return found if isinstance(value, Mapping) else found[""]

    def part(self) -> tuple[Sequence[int], int]:
        """Return the workers' shares of what is done together, and this one's rank."""
        crew = self.engine.crew
        assert crew is not None
        shares = self.engine.shares
        return (shares, crew.rank) if len(shares) == crew.workers else ([1] * crew.workers, crew.rank)

    def any(self, mine: bool) -> bool:
        """Return whether any worker says so."""
        return bool(self.call(lambda: any(self.engine.exchange(mine))))

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Let the others wait for this worker, whatever the deadline."""
        self.engine.set_busy(True)
        try:
            yield
        finally:
            self.engine.set_busy(False)


Sums = dict[str, list[float]]
"""Sum and weight by name."""


def means_of(sums: Sums) -> dict[str, float]:
    """Return sum over weight of each; NaN where there is no weight."""
    return {name: total / weight if weight else float("nan") for name, (total, weight) in sums.items()}


def add_sums(total: Sums, more: Sums) -> Sums:
    """Add to sums, name by name; return them."""
    for name, (value, weight) in more.items():
        held = total.setdefault(name, [0.0, 0.0])
        held[0] += value
        held[1] += weight
    return total


def _summed(parts: list[Sums]) -> Sums:
    total: Sums = {}
    for part in parts:  # in the order of ranks: the same floats everywhere
        add_sums(total, part)
    return total


def _number(value: Any) -> float:
    if isinstance(value, Tensor) and value.numel() != 1:
        raise BadTrainingError(
            f"ctx.mean() takes numbers, and this is a tensor of shape {list(value.shape)}: "
            "give its mean, and how many it counts for as n"
        )
    return float(value)
