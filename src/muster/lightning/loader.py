"""The training's batches for Lightning's loop: as many per epoch as its own loader has."""

from collections.abc import Callable, Iterator
from typing import Any

from muster.integration.entry import entered
from muster.runtime.user.session import Session


class FitLoader:
    """Stands for the training's `DataLoader`: yields this worker's samples of each step."""

    def __init__(self, loader: Any, batches: int, session: Session, update: Callable[[], None]) -> None:
        """`update`: follow the others' update, as a joiner without the whole state."""
        self._loader, self._batches, self._session = loader, batches, session
        self._update = update
        self._steps: Iterator[Any] = iter(())
        self._next: Any = None

    def begin(self) -> None:
        """Join the training; the first batch is loaded, and the state is the others'."""
        self._steps = entered(self._session, self._update)
        self._next = next(self._steps, None)

    def again(self) -> Any:
        """Return this worker's samples of a step that is redone."""
        return next(self._steps)

    def end(self) -> None:
        """Commit the last step, and leave after the last checkpoint."""
        self._session.stop()
        for _ in self._steps:
            self._session.skip()  # Lightning has stopped early: the others hear of it with this step

    def __iter__(self) -> Iterator[Any]:
        while True:
            batch, self._next = self._next, None
            batch = next(self._steps, None) if batch is None else batch
            if batch is None:
                return
            yield batch

    def __len__(self) -> int:
        return self._batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
