"""What users give instead of what is wanted, and what to do about it."""

from typing import Any

from torch.utils.data import DataLoader, Sampler

from muster.runtime.errors import BadTrainingError

NO_END = (
    "when does it end? give ctx.data(..., epochs=...) or steps=..., ctx.epochs(count), "
    "or until=muster.loss < ..."
)
TWICE = (
    "wrap() was called twice: a training has one call. For several parts with one optimiser, wrap "
    "nn.ModuleDict({...}) and one optimiser with a parameter group for each; to train something else, "
    "start another process"
)
ALL_EPOCHS = (
    "ctx.steps() goes through all epochs by itself, and has. For a loop over epochs write "
    "`for epoch in ctx.epochs():` around `for batch in ctx.steps():`"
)


def check_dataset(data: Any, where: str = "ctx.data", *, streams: bool = True) -> None:
    """Reject what is no dataset, with a word on what to give instead."""
    if isinstance(data, DataLoader):
        raise BadTrainingError(
            f"{where} takes the dataset, not a DataLoader: give its .dataset; "
            + (
                "global_batch=, shuffle=, collate= and loaders= say"
                if streams
                else "batch= and collate= say"
            )
            + " what the DataLoader was told"
        )
    if isinstance(data, Sampler):
        raise BadTrainingError(
            f"{where} takes the dataset, not a {type(data).__name__}: Muster divides the samples among "
            "the workers; shuffle= and seed= set their order"
        )
    if streams and hasattr(data, "shards"):
        return
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        or_streams = (
            ", or one of streams with shards() -> int and shard(i) -> iterator" if streams else ""
        )
        raise BadTrainingError(
            f"{where}: {type(data).__name__} has no length or no samples by number: give a dataset "
            f"with len() and dataset[i]{or_streams}"
        )
