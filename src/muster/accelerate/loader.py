"""A training's batches, for a loop that iterates over a loader epoch by epoch."""

from collections.abc import Callable, Iterator
from typing import Any

from muster.integration.weights import rows
from muster.runtime.errors import BadTrainingError
from muster.runtime.user.session import Session

Told = Callable[[Any, bool], None]
"""Hears of each batch before the loop does, and whether it is a step's last; None after an epoch."""


class ElasticLoader:
    """Stands for the training's `DataLoader`: yields this worker's samples of each step."""

    def __init__(self, loader: Any, session: Session, told: Told) -> None:
        self._loader, self._session, self._told = loader, session, told
        self.open = False
        """Whether the loop is within an epoch."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the current epoch's batches, of which a step has as many as fit onto the device."""
        if not self.open:
            raise BadTrainingError(
                "the training's loader is read within `for epoch in accelerator.epochs(count):`"
            )
        size = self._loader.batch_sampler.batch_size
        for batch in self._session.steps():
            last = -(-rows(batch) // size)
            for number, part in enumerate(self._session.parts(batch), start=1):
                self._told(part, number == last)
                yield part
        self._told(None, True)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
