"""The steps of a worker for a loop that is not ours."""

from collections.abc import Callable, Iterator
from typing import Any

from muster.runtime.user.session import Session


def entered(ctx: Session, update: Callable[[], object]) -> Iterator[Any]:
    """Yield this worker's batches from the step on at which it has the whole state.

    Before that a joiner has no samples, and only follows the others' updates: `update` does one.
    """
    for batch in ctx.steps():
        if ctx.entered:
            yield batch
        else:
            ctx.backward(None)
            update()
