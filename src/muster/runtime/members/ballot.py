"""What members tell each other with every step, and when a formation begins.

A ballot is a small float64 vector. Each rank fills its own row and leaves the others zero, so the sum,
made with the gradients, holds all rows exactly. Behind the rows, one number per parameter tensor counts
the ranks that used it.
"""

from dataclasses import astuple, dataclass, fields
from typing import Any

import torch
from torch import Tensor

from muster.ending import Trend

SAVE, STOP, LEAVE = 1, 2, 4
"""Requests, as bits; LEAVE comes with STOP and ends the process as well."""


@dataclass(frozen=True, slots=True)
class Vote:
    """One rank's row of a step's ballot."""

    samples: float = 0.0
    """Samples in the sum."""
    loss: float = 0.0
    """Sum of their losses."""
    built: float = 0.0
    """The formation this rank has built and could switch to; 0: none."""
    able: float = 0.0
    """1 if the rank holds the whole state and can take samples in the next step."""
    cap: float = 0.0
    """Samples that fit into its memory; 0: no known limit."""
    fixed: float = 0.0
    per_sample: float = 0.0
    """Its line t = fixed + per_sample b, seconds; 0 and 0: unknown."""
    noise: float = 0.0
    """Relative error of that line."""
    request: float = 0.0
    """SAVE and STOP, if the coordinator asked for them."""
    failed: float = 0.0
    """1 if its gradients are not whole, e.g. out of memory: the step is void."""
    finished: float = 0.0
    far: float = 0.0
    """Of leased shards: see `leases.Taken`."""
    weight: float = 0.0
    """What its losses are divided by, with those of the others: its samples, or the user's weights."""
    turn: float = 0.0
    """Which sum of the training this is: all members must be at the same."""
    skip: float = 0.0
    """1 if this rank wants no update of this sum."""
    scaled: float = 0.0
    """1 if a scaler looks for overflows: a loss may be infinite."""
    layout: float = 0.0
    """Checksum of what it trains from this step on; 0: what it trained before."""
    drawn: float = 0.0
    sketch: float = 0.0
    """Of the step's samples over all workers: see `feed.Drawn`."""
    norm: float = 0.0
    """Squared norm of the gradients it owns, if the model is in parts."""
    seal: float = 0.0
    seal_too: float = 0.0
    """48 bits of a checksum of some of the state (`state/guard.py`); 0: no opinion."""
    hardware: float = 0.0
    """The same for members whose bits can be compared."""
    batch: float = 0.0
    order: float = 0.0
    choice: float = 0.0
    """The batch that it wants from the next step on: see `batching.BatchWish`; 0: none."""
    square: float = 0.0
    """Squared norm of its part of the sum, in steps that measure the noise; else 0."""
    signal: float = 0.0
    spread: float = 0.0
    measured: float = 0.0
    """The gradient's noise: see `batching.NoiseScale`."""
    until_order: float = 0.0
    until_bound: float = 0.0
    until_decrease: float = 0.0
    until_patience: float = 0.0
    """What it was told to end by: see `given_ending.GivenEnding`; 0: nothing."""


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One rank's row of a roll call at the beginning of a formation (float64)."""

    worker: float = 0.0
    holds: float = 0.0
    """1 if it holds the whole state."""
    step: float = 0.0
    epoch: float = 0.0
    cursor: float = 0.0
    losses: float = 0.0
    """Sum of this epoch's losses so far."""
    cap: float = 0.0
    fixed: float = 0.0
    per_sample: float = 0.0
    noise: float = 0.0
    layout: float = 0.0
    """Checksum of the buckets: all members must train the same model."""
    kept: float = 0.0
    """If owners update: the formation whose part of the optimiser's state it keeps; 0: none."""
    prepared: float = 0.0
    """The formation whose part it has received, to keep once all have theirs; 0: none."""
    ended: float = 0.0
    """1 if its training is over."""
    loss: float = 0.0
    epoch_loss: float = 0.0
    """Of the last step and the last complete epoch; NaN: none."""
    results: float = 0.0
    """Results of collectives that it knows; see `results.ResultLog`."""
    void: float = 0.0
    """The step that its user code is in and that is void; 0: none."""
    run: float = 0.0
    """The number of the run; see `TrainingState`."""
    phase: float = 0.0
    updates: float = 0.0
    partial: float = 0.0
    """Of the step under way: see `TrainingState`."""
    changes: float = 0.0
    """How often what it trains has changed."""
    samples: float = 0.0
    contents: float = 0.0
    sketch: float = 0.0
    """Of its dataset: see `fingerprint.Fingerprint`."""
    seen: float = 0.0
    """Samples that the training has seen."""
    batch: float = 0.0
    order: float = 0.0
    choice: float = 0.0
    signal: float = 0.0
    spread: float = 0.0
    measured: float = 0.0
    """Of the batch: see `batching.Batching`."""
    first: float = 0.0
    best: float = 0.0
    flat: float = 0.0
    steepest: float = 0.0
    risen: float = 0.0
    """Of its epochs: see `ending.Trend`."""
    until_order: float = 0.0
    until_bound: float = 0.0
    until_decrease: float = 0.0
    until_patience: float = 0.0
    """What ends it by order: see `given_ending.GivenEnding`; 0: nothing was ordered."""

    @property
    def trend(self) -> Trend:
        """How the losses of its epochs went."""
        return Trend(self.first, self.best, int(self.flat), self.steepest, int(self.risen))


WIDTH = len(fields(Vote))


def ballot_size(ranks: int, tensors: int) -> int:
    """Return the elements of a ballot."""
    return ranks * WIDTH + tensors


def fill(ballot: Tensor, rank: int, ranks: int, vote: Vote, used: Tensor) -> None:
    """Write one rank's row."""
    ballot.zero_()
    ballot[rank * WIDTH : (rank + 1) * WIDTH] = torch.tensor(astuple(vote), dtype=ballot.dtype)
    ballot[ranks * WIDTH :] = used


def read(ballot: Tensor, ranks: int) -> tuple[Vote, ...]:
    """Return every rank's row of a summed ballot."""
    rows = ballot[: ranks * WIDTH].tolist()
    return tuple(Vote(*rows[i * WIDTH : (i + 1) * WIDTH]) for i in range(ranks))


def unused(ballot: Tensor, ranks: int) -> list[int]:
    """Return the parameter tensors without a gradient on any rank."""
    return [int(i) for i in (ballot[ranks * WIDTH :] == 0).nonzero().flatten().tolist()]


def exchange(group: Any, mine: Any, rank: int, ranks: int) -> tuple[Any, ...]:
    """Exchange one row of numbers (a dataclass) with all members; a collective."""
    kind, width = type(mine), len(fields(mine))
    rows = torch.zeros(ranks * width, dtype=torch.float64)
    rows[rank * width : (rank + 1) * width] = torch.tensor(astuple(mine), dtype=torch.float64)
    if ranks > 1:
        group.allreduce(rows).wait()
    values = rows.tolist()
    return tuple(kind(*values[i * width : (i + 1) * width]) for i in range(ranks))


def roll_call(group: Any, mine: MemberStatus, rank: int, ranks: int) -> tuple[MemberStatus, ...]:
    """Exchange the status of all members; a collective."""
    return exchange(group, mine, rank, ranks)


@dataclass(frozen=True, slots=True)
class Ours:
    """What this task adds to a sum besides its gradients."""

    loss: float = 0.0
    """Sum of its losses."""
    weight: float = 0.0
    """What they are divided by, with those of the others."""
    failed: bool = False
    """Its gradients are not whole: the step is void."""
    skip: bool = False
    """It wants no update."""
    scaled: bool = False
    """A scaler looks for overflows."""
    layout: int = 0
    """Checksum of what it trains from now on; 0: no change."""


NOTHING = Ours()
