"""What a feature of the matrix is: a training in plain torch and the same one under Muster.

The body of the loop is shared: in plain torch `backward` is the mean's `.backward()`, under Muster it
is `ctx.backward`. So whatever differs in the result was done by Muster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from muster.runtime.user.session import Session
from tests.matrix.order import batches

EXACT, NOISE, REFUSED = "exact", "equal within noise", "refused"
CLOSE = 1e-10
"""Largest relative difference that counts as exact, in float64: one addition is off by 1e-16."""
COUNT, BATCH, WIDTH, CLASSES = 64, 16, 12, 4

Result = dict[str, Tensor]
Backward = Callable[[Tensor], Any]


@dataclass
class Parts:
    """What a training consists of."""

    model: Any
    optimizer: Any
    data: Any
    more: dict[str, Any] = field(default_factory=dict)
    """Schedules, averages, teachers, ..."""
    folder: Path = Path()
    """Of the job, for its files."""


class Feature:
    """One everyday feature; subclasses change what differs from the plainest training."""

    title = ""
    verdict = EXACT
    close = CLOSE
    """Largest relative difference of the result; of what is random, in `unit`."""
    unit = ""
    ends = False
    """Whether the training ends by itself."""
    needs = ""
    """A package to be installed besides."""
    words = ""
    """Of the error, if it is refused."""
    note = ""
    """For the page: what to write, or why it is not exact."""

    def begin(self) -> None:
        """Prepare a process that trains under Muster."""

    def build(self) -> Parts:
        """Make model, optimiser and data, the same in every process."""
        torch.manual_seed(3)
        model = self.model()
        return Parts(model, self.optimizer(model), self.dataset())

    def model(self) -> Any:
        """A smooth network: at a kink one bit decides."""
        return nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, 16), nn.Tanh(), _head(16))

    def optimizer(self, model: Any) -> Any:
        """The optimiser of the trained parameters."""
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def dataset(self) -> Any:
        """Numbers and a class for each."""
        return TensorDataset(torch.randn(COUNT, WIDTH), torch.randint(0, CLASSES, (COUNT,)))

    def options(self) -> dict[str, Any]:
        """How `ctx.data` is called."""
        return {"global_batch": BATCH}

    def wrap(self, ctx: Session, parts: Parts) -> None:
        """Hand the parts to the session."""
        ctx.wrap(parts.model, parts.optimizer)

    def losses(self, parts: Parts, batch: Any) -> Tensor:
        """One loss per sample."""
        x, y = batch
        return functional.cross_entropy(parts.model(x), y, reduction="none")

    def body(self, parts: Parts, batch: Any, backward: Backward, step: int) -> None:
        """The body of the loop; `step`: steps done before it."""
        parts.optimizer.zero_grad()
        backward(self.losses(parts, batch))
        parts.optimizer.step()

    def elastic(self, ctx: Session, parts: Parts, pace: Callable[[], None]) -> None:
        """Train under Muster; `pace` is called in every step."""
        for batch in ctx.steps():
            pace()
            self.body(parts, batch, ctx.backward, ctx.step)

    def plain(self, parts: Parts, steps: int, seed: int = 0) -> None:
        """Train in plain torch; `seed`: of the order of the samples."""
        for step, batch in enumerate(batches(parts.data, self.options(), steps, seed)):
            self.body(parts, batch, mean_backward, step)

    def result(self, parts: Parts) -> Result:
        """What is compared."""
        return {name: tensor.detach().clone() for name, tensor in parts.model.state_dict().items()}

    def difference(self, found: Result, plain: Result) -> float:
        """Return the largest difference, relative to the largest value of each tensor."""
        assert found.keys() == plain.keys()
        return max(
            float((found[name] - plain[name]).abs().max() / plain[name].abs().max().clamp(min=1e-3))
            for name in plain
            if plain[name].is_floating_point()
        )

    def excused(self, found: Result, plain: Result, last: Sequence[int]) -> Result:
        """Return the result with what a kill may take with it filled in; `last`: steps before kills."""
        return found

    def noise(self, found: Result, train: "Train") -> float:
        """Return how far a random training is from plain ones, in `unit`."""
        raise NotImplementedError(f"{self.title} is not random")


def _head(width: int) -> nn.Module:
    return nn.Linear(width, CLASSES)


def mean_backward(losses: Tensor) -> None:
    """Differentiate the mean, as in plain torch."""
    losses.mean().backward()


Train = Callable[[Feature, int], Result]
"""Trains a feature in plain torch with a seed, for as many steps as the job has done."""
