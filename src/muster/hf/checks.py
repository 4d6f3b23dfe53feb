"""Arguments that an elastic training cannot honour: refused before it begins."""

from typing import Any

import torch
from torch.utils.data import IterableDataset

from muster.runtime.errors import BadTrainingError

_LOMO = ("lomo", "adalomo")


def check_arguments(args: Any, device: torch.device) -> None:
    """Raise for an argument of `TrainingArguments` that would be ignored or wrong."""
    for wrong, what in _problems(args, device):
        if wrong:
            raise BadTrainingError(what)


def _problems(args: Any, device: torch.device) -> tuple[tuple[Any, str], ...]:
    return (
        (args.deepspeed, "deepspeed= is a way of its own to use many devices: leave it out"),
        (args.fsdp, "fsdp= is a way of its own to use many devices: leave it out"),
        (
            args.parallelism_config,
            "parallelism_config= needs a fixed number of processes: leave it out",
        ),
        (
            args.auto_find_batch_size,
            "auto_find_batch_size=True would change the batch: a share that does not fit into memory "
            "is made smaller by itself; leave it out",
        ),
        (
            args.optim in _LOMO,
            f"optim={str(args.optim)!r} updates in the backward pass, before gradients are summed",
        ),
        (
            args.include_num_input_tokens_seen not in ("no", False),
            "include_num_input_tokens_seen counts the tokens of one worker only: leave it out",
        ),
        (
            args.train_sampling_strategy == "batch_rebalance",
            'train_sampling_strategy="batch_rebalance" needs a fixed number of processes: '
            'use "group_by_length"',
        ),
        (
            args.enable_jit_checkpoint,
            "enable_jit_checkpoint=True is not needed: a job that is stopped saves its state; leave it "
            "out",
        ),
        (
            args.world_size > 1,
            "a group of processes was formed before muster.hf was imported: import it before "
            "TrainingArguments are made",
        ),
        (
            args.device.type != device.type,
            f"the worker's device is {device}, and the arguments say {args.device}: pass "
            f"use_cpu={device.type == 'cpu'}",
        ),
    )


def check_dataset(dataset: Any) -> None:
    """Raise for a dataset without a position to return to."""
    if dataset is None:
        raise BadTrainingError("no data: pass train_dataset=")
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise BadTrainingError(
            f"{type(dataset).__name__} has no length: pass a dataset with len() and dataset[i] "
            "(datasets.Dataset, not streaming)"
        )
