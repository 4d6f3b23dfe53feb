"""A training's batches, for a loop that iterates over a loader epoch by epoch."""

from collections.abc import Callable, Iterator
from typing import Any

from muster.runtime.errors import BadTrainingError
from muster.runtime.user.session import Session

Told = Callable[[Any, bool], None]
"""Hears of each batch before the loop does, and whether it is the last of its step; None at the end."""


class ElasticLoader:
    """Stands for the training's `DataLoader`: yields this worker's samples of each step."""

    def __init__(self, loader: Any, session: Session, told: Told) -> None:
        self._loader, self._session, self._told = loader, session, told
        self._steps: Iterator[Any] = iter(())
        self._batch: Any = None
        self._over = True

    def begin(self) -> None:
        """Join the training, and load the first batch."""
        self._steps, self._over = self._session.steps(), False
        self._advance()

    @property
    def over(self) -> bool:
        """Whether the training has ended, or has not begun."""
        return self._over

    def __iter__(self) -> Iterator[Any]:
        """Yield the rest of the current epoch's batches, on a device; one or more for each step."""
        if self._over:
            raise BadTrainingError(
                "the training's loader is read within `for epoch in accelerator.epochs(count):`"
            )
        epoch = self._session.epoch
        while not self._over and self._session.epoch == epoch:
            parts = list(self._session.parts(self._batch))
            for number, part in enumerate(parts, start=1):
                self._told(part, number == len(parts))
                yield part
            self._advance()
        self._told(None, True)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def _advance(self) -> None:
        for batch in self._steps:
            self._batch = batch
            return
        self._batch, self._over = None, True
