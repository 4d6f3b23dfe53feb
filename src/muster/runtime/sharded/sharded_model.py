"""A model in parts, step by step: blocks are gathered just before they compute, and freed after.

forward   gather a block, compute, free it; the next one of the last step's order is fetched meanwhile
backward  gather it again; once all its gradients are there, sum them to their owners, and free it

Micro-batches are rounds of a step: each does both, and all members do as many of them.

If a member is lost, the user's code still runs to the end of its step, on zeros: nothing of that step
counts.
"""

import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook

from muster.runtime.errors import BadTrainingError, BrokenGroupError
from muster.runtime.shape.trace import tensors
from muster.runtime.sharded.blocks import Block, Kinds, find_blocks
from muster.runtime.sharded.exchange import ShareExchange
from muster.runtime.sharded.unit import Unit
from muster.runtime.step.buckets import Buckets

IN_FLIGHT = 1
"""Blocks whose gradients are being summed while the backward pass goes on; each takes the memory of
its gradients twice."""


class ShardedModel(Buckets):
    """The blocks of a model, and the hooks that gather them; there are no buckets to sum."""

    def __init__(self, model: nn.Module, kinds: Kinds) -> None:
        self.every: list[Any] = list(model.parameters())
        self.parameters = [p for p in self.every if p.requires_grad]
        self.slots, self.flats, self.host = (), [], []
        self.blocks = find_blocks(model, kinds)
        self.units: list[Unit] = [unit for block in self.blocks for unit in block.units]
        self._root = [block for block in self.blocks if block.module is None]
        self._exchange: ShareExchange | None = None
        self.summed = False
        """Whether this member has all its sums of the step."""
        self.on_broken: Callable[[], None] = lambda: None
        """Called when a member is lost in the middle of the user's code."""
        self.torn = self.watching = False
        self._broken = self._backward = self._active = self._passing = False
        self._evaluating = self._over = False
        """Whether all members evaluate; whether the training is over."""
        self._last = self._counts = True
        """Of the round: whether it ends the step; whether this member has samples in it: without, its
        gradients are zeros."""
        self._used = [0.0] * len(self.parameters)
        self._order: list[int] = []
        """Blocks in the order they were needed in this round, and in the one before; the root is there
        in all of them."""
        self._expected: list[int] = []
        self._summing: list[Unit] = []
        self.guarded = False
        """Whether user code runs: it must not take parts for the whole."""
        model.register_state_dict_pre_hook(self._refuse)
        self._hook()

    # formations

    def enter(self, exchange: ShareExchange) -> None:
        """Use the members of a new formation; all members learn the order of its blocks again."""
        self._exchange, self._broken = exchange, False
        self._order, self._expected = [], []

    def end(self) -> None:
        """End the training: whoever uses the model by itself from now on is told."""
        self._over = self.guarded = True

    def close(self) -> None:
        """Leave all formations."""
        self.end()
        self._exchange = None

    @property
    def checksum(self) -> int:
        """A number that agrees among members with the same model in the same parts."""
        shapes = [(unit.places, [list(s) for s in unit.shapes], unit.trained) for unit in self.units]
        return zlib.crc32(repr([shapes, str(self.every[0].dtype)]).encode())

    # a step

    @property
    def used(self) -> Tensor:
        """1 for each parameter with a gradient in this step."""
        return torch.tensor(self._used)

    def begin(
        self,
        put: Callable[[int], None] | None,
        on_device: bool = False,
        chosen: Collection[int] | None = None,
        keep: bool = False,
        whole: bool = False,
    ) -> None:
        """Begin a step; the parameters outside of all blocks are whole from now on."""
        if keep or chosen is not None:
            raise BadTrainingError(
                "with shard= a step has one ctx.backward(losses), of all parameters: add up the losses"
            )
        if self._broken:  # of a void step whose members have regrouped
            self.abandon()
            self._broken = False
        self._used = [0.0] * len(self.parameters)
        self.summed, self._active = False, True
        self._begin_round()
        for unit in self.units:
            unit.gradients.begin()
        for parameter in self.every:
            parameter.grad = None
        for block in self._root:
            self._need(block)

    def begin_void(self) -> None:
        """Begin a step that will not count: the parameters are zeros, and nobody is asked for them."""
        self._broken = self._active = True
        for block in self._root:
            self._need(block)

    def finish(self) -> None:
        """Sum what is left after the backward pass; wait for all sums. Idempotent."""
        if self.summed:
            return
        if not self._broken:
            self._last = True
            self._sum_rest()
            for unit in self.units:
                unit.gradients.finish()
        self._active, self._summing = False, []
        if self._broken:
            raise BrokenGroupError("a member was lost during the step")
        for block in self.blocks:
            self._rest(block)
        self.summed = True

    def withhold(self) -> None:
        """As `finish`: a member without samples has taken part with zeros."""
        self.finish()

    def norm_squared(self) -> float:
        """Return the squared norm of the gradients that this member owns."""
        own = [unit.gradients.own() for unit in self.units if unit.trained]
        norms = [torch.linalg.vector_norm(each, dtype=torch.float64) for each in own]
        return float(torch.stack(norms).square().sum())  # at once: the device is asked but once

    @contextmanager
    def differentiating(self, last: bool = True, counts: bool = True) -> Iterator[None]:
        """Take the gradients of a round's backward pass."""
        self._passing, self._last, self._counts = True, last, counts
        try:
            yield
        finally:
            self._passing = False
        if not last:
            self._end_round()

    def _begin_round(self) -> None:
        self._expected, self._order = self._order, []
        self._backward, self._summing = False, []

    def _end_round(self) -> None:
        """Sum what is left of a round; fetch the first block of the next one."""
        self._guarded(self._sum_rest)
        for unit in self.units:
            unit.gradients.begin_round()
        self._begin_round()
        self._guarded(self._fetch_next)

    def _sum_rest(self) -> None:
        """Sum the gradients of units that the round has not brought all of."""
        for unit in self.units:
            if unit.gradients.incomplete:
                self._reduce(unit)
        for unit in self._summing:
            unit.gradients.settle(self._members(), self._last)

    def settle(self, factor: float = 1.0) -> None:
        """Nothing is left from before."""

    def spread(self, unused: Collection[int], factor: float = 1.0) -> None:
        """Give each parameter its part of the summed gradient, times a factor."""
        gone = {id(self.parameters[index]) for index in unused}
        places = {place for place, p in enumerate(self.every) if id(p) in gone}
        for unit in self.units:
            if unit.trained:
                unit.gradients.spread(places)
        if factor != 1.0:
            self.scale(factor)

    def scale(self, factor: float) -> None:
        """Scale the parts of all gradients."""
        grads = [p.grad for p in self.parameters if p.grad is not None]
        if grads:
            torch._foreach_mul_(grads, factor)

    def abandon(self) -> None:
        """Drop a void step: nothing of it may reach the next one."""
        self._active = self.summed = False
        self._summing = []
        for block in self.blocks:
            for unit in block.units:
                unit.drop()
            block.here = block.stays = False

    def idle(self) -> None:
        """Nothing to leave alone."""

    def visit(self) -> Iterator[Block]:
        """Yield each block with its parameters whole; all members do so together."""
        for block in self.blocks:
            self._gather(block)
            block.here = True
            yield block
            self._rest(block)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Let all members use the model without gradients, beside a step; raise if one is lost."""
        before = self._active, self._broken, self._backward
        for block in self.blocks if self._broken else ():  # they are zeros
            self._rest(block)
        self._active = self._broken = self._backward = False
        self._evaluating = True
        try:
            for block in self._root:
                self._need(block)
            yield
        finally:
            self._evaluating = False
            self._active, self._broken, self._backward = before
            for block in self._root:
                if self._broken or not self._active:
                    self._rest(block)
                if self._active:
                    self._need(block)

    # hooks

    def _hook(self) -> None:
        for block in self.blocks:
            if block.module is not None:
                block.module.register_forward_pre_hook(self._before_forward(block))
                block.module.register_forward_hook(self._after_forward(block))
        index = {id(parameter): number for number, parameter in enumerate(self.parameters)}
        for block in self.blocks:
            for unit in block.units:
                for place, parameter in enumerate(unit.parameters):
                    if unit.trained:
                        ready = self._collected(block, unit, place, index[id(parameter)])
                        parameter.register_post_accumulate_grad_hook(ready)

    def _before_forward(self, block: Block) -> Callable[..., None]:
        return lambda module, args: self._need(block)

    def _after_forward(self, block: Block) -> Callable[..., None]:
        def hook(module: Any, args: Any, output: Any) -> None:
            grown = [t for t in tensors(output) if t.requires_grad]
            if torch.is_grad_enabled() and grown:
                for tensor in grown:
                    tensor.register_hook(lambda _: self._need_again(block))
                inputs = [t for t in tensors(args) if t.requires_grad]
                if block.frozen and inputs:  # nothing else tells when its weights are done with
                    register_multi_grad_hook(inputs, lambda _: self._rest(block))
            if self._backward:
                return  # recomputed within the backward pass
            following = self._expected[len(self._order) :][:1]
            if self._active and following == [block.number]:
                block.stays = True
            else:
                self._rest(block)

        return hook

    def _collected(self, block: Block, unit: Unit, place: int, index: int) -> Callable[[Any], None]:
        def hook(parameter: Any) -> None:
            if not self._active or self._broken:
                return
            if not self._passing or not unit.gradients.lacks(place):
                raise BadTrainingError(
                    "a plain .backward() reached a model in parts, which the other workers would not "
                    "hear of: call ctx.backward(losses)"
                )
            self._used[index] = 1.0
            if unit.gradients.collect(place, self._counts):
                self._guarded(lambda: self._reduce(unit))
                if self._is_done_with(block):
                    self._rest(block)

        return hook

    def _is_done_with(self, block: Block) -> bool:
        """Whether all gradients of a block are there; the root is used by the rounds that follow."""
        summed = not any(unit.gradients.incomplete for unit in block.units)
        return summed and not block.frozen and (block.module is not None or self._last)

    # gathering

    def _need_again(self, block: Block) -> None:
        self._backward = True
        self._need(block)

    def _need(self, block: Block) -> None:
        """Make a block's parameters whole, and begin to fetch the next block."""
        if block.here and not block.stays:
            return
        if not block.here:
            self._guarded(lambda: self._gather(block))
            if self._broken:
                for unit in block.units:
                    unit.pretend()
            block.here = True
        block.stays = False
        if self._active:
            if block.module is not None:
                self._order.append(block.number)
            self._guarded(self._fetch_next)

    def _gather(self, block: Block) -> None:
        exchange = self._members()
        for unit in block.units:
            unit.start(exchange)
        for unit in block.units:
            unit.use()

    def _fetch_next(self) -> None:
        done = len(self._order)
        if self._expected[:done] != self._order or done >= len(self._expected):
            return
        block = self.blocks[self._expected[done]]
        if not block.here:
            for unit in block.units:
                unit.start(self._members())

    def _rest(self, block: Block) -> None:
        if block.here:
            for unit in block.units:
                unit.rest()
            block.here = block.stays = False

    def _reduce(self, unit: Unit) -> None:
        exchange = self._members()
        unit.gradients.reduce(exchange, self._last)
        self._summing.append(unit)
        for earlier in self._summing[:-IN_FLIGHT]:
            earlier.gradients.settle(exchange, self._last)

    def _members(self) -> ShareExchange:
        if self._exchange is None or (self._over and not self._evaluating):
            raise BadTrainingError(
                "the model is in parts, and the training is over: load what ctx.export(path) wrote"
            )
        return self._exchange

    def _refuse(self, model: Any, prefix: str, keep_vars: bool) -> None:
        if self.guarded:
            raise BadTrainingError(
                "model.state_dict() of a model in parts has this worker's part only: ctx.export(path) "
                "writes the whole at the end, ctx.checkpoint(folder) the parts"
            )

    def _guarded(self, call: Callable[[], None]) -> None:
        """Call, unless the step is void; if a member is lost, it is from now on."""
        try:
            if not self._broken:
                call()
        except BrokenGroupError:
            if self._evaluating:
                raise
            self._broken = True
            self.on_broken()
