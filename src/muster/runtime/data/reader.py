"""Reads samples of a dataset by their ids, and says which one was bad and where its code failed."""

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch.utils.data import default_collate

from muster.runtime.data.randomness import generators_kept, seed_generators
from muster.runtime.data.samples import mixed_seed
from muster.runtime.errors import BadTrainingError

Collate = Callable[[list[Any]], Any]
"""Builds a batch from a list of samples, as in torch."""


class SampleReader:
    """Samples and batches of a dataset; `seeded`: generators are seeded by (seed, epoch, sample)."""

    def __init__(
        self, dataset: Any, collate: Collate | None = None, seed: int = 0, seeded: bool = False
    ) -> None:
        self.dataset, self.seeded = dataset, seeded
        self._collate, self._seed = collate or default_collate, seed

    def samples(self, ids: Sequence[int], epoch: int) -> list[Any]:
        """Return these samples, in order."""
        if self.seeded:
            with generators_kept():
                return [self._one(sample, epoch) for sample in ids]
        together = getattr(self.dataset, "__getitems__", None)
        if together is not None:
            with suppress(Exception):  # the loop below finds out which one is bad
                found = list(together(list(ids)))
                if len(found) == len(ids):
                    return found
        return [self._one(sample, epoch) for sample in ids]

    def batch(self, ids: Sequence[int], samples: list[Any]) -> Any:
        """Return a batch of these samples."""
        try:
            return self._collate(samples)
        except Exception as problem:
            raise BadTrainingError(
                f"samples {_few(ids)} could not be collated: {told(problem)}; pass a `collate` that can"
            ) from problem

    def _one(self, sample: int, epoch: int) -> Any:
        try:
            if self.seeded:
                seed_generators(mixed_seed(self._seed, epoch, sample))
            return self.dataset[sample]
        except Exception as problem:
            raise BadTrainingError(
                f"sample {sample} of the dataset could not be loaded: {told(problem)}"
            ) from problem


def told(problem: BaseException) -> str:
    """Describe an error of the user's code in a line, with the file and line it came from."""
    here = Path(__file__).parent
    frames = [
        frame
        for frame in traceback.extract_tb(problem.__traceback__)
        if Path(frame.filename).parent != here
    ]
    place = f" ({Path(frames[0].filename).name}, line {frames[0].lineno})" if frames else ""
    return f"{type(problem).__name__}: {problem}{place}"


def _few(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:5])) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
