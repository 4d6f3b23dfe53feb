"""Gradients in flat buckets, handed over while the backward pass still runs.

A bucket is one flat tensor; parameters that become ready together share one. Each gradient is copied
into its place when it is ready, and stays there: the memory that autograd gave it is free again. A
bucket is handed over when it and all buckets before it are complete: all members use the same order. On
a GPU a bucket has a pinned copy in host memory, which is summed.

A step may sum several times (a GAN's two sides, two losses): what a parameter's gradient held before
is kept aside and added to the new sum, as `.backward()` would.
"""

import contextlib
import threading
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import torch
from torch import Tensor

from muster.runtime.errors import BadTrainingError
from muster.runtime.step.flat import adjoining, shaped
from muster.runtime.step.malloc import lend_pages, take_pages

FIRST = 1 << 20
"""Bytes of the first bucket: a small one starts the network early."""
LIMIT = 4 << 20
"""Bytes of the others: gloo's collectives have a fixed cost of some 0.3 ms. A step of a 38 MB model
took 1.13 times as long as with `DistributedDataParallel` at its 25 MB, and 0.97 times at 4 MB."""


@dataclass(frozen=True, slots=True)
class GradientSlot:
    """Place of a parameter's gradient: its index in the model, bucket, elements [begin, end)."""

    parameter: int
    bucket: int
    begin: int
    end: int


def lay_out(
    parameters: Sequence[Any], order: Sequence[int], names: Sequence[str] = ()
) -> tuple[GradientSlot, ...]:
    """Lay out slots in the given order; a bucket has one dtype, one device and one model.

    `names`: of the parameters; a prefix ("model2:") tells their model.
    """
    buckets: list[list[int]] = []
    kind, used = None, 0
    for index in order:
        parameter = parameters[index]
        size, prefix = parameter.numel() * parameter.element_size(), _prefix(names, index)
        this = (parameter.dtype, parameter.device, prefix)
        if this != kind or used + size > (FIRST if len(buckets) == 1 else LIMIT):
            kind, used = this, 0
            buckets.append([])
        used += size
        buckets[-1].append(index)
    return tuple(
        GradientSlot(index, bucket, *slot)
        for bucket, inside in enumerate(buckets)
        for index, slot in zip(inside, adjoining(parameters[i].numel() for i in inside), strict=True)
    )


def _prefix(names: Sequence[str], index: int) -> str:
    return names[index].rpartition(":")[0] if names else ""


def ready_order(names: Sequence[str], known: Sequence[str]) -> list[int]:
    """Return the parameters in the order in which their gradients are expected.

    `known`: the order found for the first model. The rest follows, last parameter first, as in a
    dense network.
    """
    places = {name: place for place, name in enumerate(names)}
    found = [places[name] for name in known if name in places]
    return [*found, *(place for place in reversed(range(len(places))) if place not in set(found))]


class Buckets:
    """The flat buckets of a training, and the hooks that fill them."""

    def __init__(
        self, parameters: Sequence[Any], order: Sequence[int], names: Sequence[str] = ()
    ) -> None:
        """`order`: in which gradients are expected; `names`: of the parameters."""
        self._hooks: list[Any] = []
        self.lay_out_again(parameters, order, names)

    def lay_out_again(
        self, parameters: Sequence[Any], order: Sequence[int], names: Sequence[str] = ()
    ) -> None:
        """Begin with other parameters: what is trained has changed."""
        for hook in self._hooks:
            hook.remove()
        self.parameters = list(parameters)
        self._names = list(names) or [str(index) for index in range(len(self.parameters))]
        self.slots = lay_out(parameters, order, names)
        count = self.slots[-1].bucket + 1 if self.slots else 0
        self.flats = [self._flat(bucket) for bucket in range(count)]
        """The buckets on the parameters' device."""
        self.host = [
            torch.zeros(flat.shape, dtype=flat.dtype, pin_memory=True) if flat.is_cuda else flat
            for flat in self.flats
        ]
        self._views = {
            s.parameter: shaped(
                self.flats[s.bucket], (s.begin, s.end), self.parameters[s.parameter].shape
            )
            for s in self.slots
        }
        self._slot = {slot.parameter: slot for slot in self.slots}
        self._every = range(len(self.parameters))
        self._chosen: Collection[int] = self._every
        """The parameters whose gradients are summed."""
        self._waiting = [0] * len(self.flats)
        self._summed = [True] * len(self.flats)
        """By bucket, whether it is summed."""
        self.sparse: Collection[int] = ()
        """Parameters whose gradients are sparse (embeddings): summed dense, handed back sparse."""
        self._lent = False
        """Nobody to sum with: the buckets' memory is the system's."""
        self._next = 0
        self._put: Callable[[int], None] | None = None
        self._on_device = False
        self._used = [0.0] * len(self.parameters)
        self._before: dict[int, Tensor] = {}
        """Gradients of earlier sums of the step."""
        self.watching = False
        """Whether a step is under way, in which gradients come by `differentiating` alone."""
        self._passing = self._adding = False
        """Whether a backward pass of ours runs; whether more of them follow before the sum."""
        self.torn = False
        """A gradient grew after its bucket was handed over: the sum is wrong."""
        self._late = False
        """Hold buckets back until the pass is over, since gradients were torn before."""
        gpu = next((flat.device for flat in self.flats if flat.is_cuda), None)
        self._copies = _Copies(gpu) if gpu is not None else None
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._ready(index))
            for index, parameter in enumerate(self.parameters)
        ]

    @property
    def checksum(self) -> int:
        """A number that agrees among members with the same model; fits into a float64."""
        text = repr([(s, str(self.parameters[s.parameter].dtype)) for s in self.slots])
        return zlib.crc32(text.encode())

    @property
    def used(self) -> Tensor:
        """1 for each parameter with a gradient in this sum."""
        return torch.tensor(self._used)

    def begin(
        self,
        put: Callable[[int], None] | None,
        on_device: bool = False,
        chosen: Collection[int] | None = None,
        keep: bool = False,
        whole: bool = False,
    ) -> None:
        """Begin a sum; call `put` with each bucket when it is ready.

        `put` None: there is nobody to sum with. `on_device`: sum the buckets on the parameters' device,
        not in host memory. `chosen`: the parameters to sum; None: all. `keep`: add to the gradients
        that there are; else drop them. `whole`: hand over buckets without a chosen parameter, too.
        """
        self._put, self._next, self._on_device = put, 0, on_device
        self._chosen = self._every if chosen is None else frozenset(chosen)
        self._waiting = [0] * len(self.flats)
        for index in self._chosen:
            self._waiting[self._slot[index].bucket] += 1
        self._summed = [whole or count > 0 for count in self._waiting]
        self._used = [0.0] * len(self.parameters)
        self.torn, self.watching, self._before = False, True, {}
        for index, parameter in enumerate(self.parameters):
            self._put_aside(index, parameter, keep)
        if put is None and not keep and not self._lent:
            for flat in self.flats:  # DDP's gradients are in its buckets; those of one worker need none
                lend_pages(flat)
        self._lent = put is None

    def ready_for_others(self) -> None:
        """Have the memory of all buckets before the first sum with others; beside the training."""
        if self._lent:
            for flat in self.flats:
                take_pages(flat)

    def _put_aside(self, index: int, parameter: Any, keep: bool) -> None:
        """Make room for a new gradient; what its bucket held is copied if it is still needed."""
        grad = parameter.grad if keep else None
        if grad is self._views[index] and self._summed[self._slot[index].bucket]:
            grad = grad.clone()
        if grad is not None and index in self._chosen:
            self._before[index], grad = grad, None
        parameter.grad = grad

    @contextlib.contextmanager
    def differentiating(self, last: bool = True, counts: bool = True) -> Iterator[None]:
        """Take the gradients of a backward pass; `last`: hand them over.

        `counts`: whether they are of samples, not of a stand-in.
        """
        self._passing, self._adding = True, not last
        try:
            yield
        finally:
            self._passing = False

    def gradients(self) -> Iterator[Tensor]:
        """Return the gradients of the sum that was made last, before they are handed out."""
        if self._put is None:
            grads = (self.parameters[index].grad for index in self._chosen)
            yield from (grad for grad in grads if grad is not None)
            return
        for summed, flat, host in zip(self._summed, self.flats, self.host, strict=True):
            if summed:
                yield flat if self._on_device else host

    def idle(self) -> None:
        """Leave gradients as they are: nothing is summed in this step."""
        self._put = None

    def finish(self) -> None:
        """Hand over what is left after the backward pass, zeros where no gradient came."""
        for index in self._chosen:
            if not self._used[index]:
                self._used[index] = float(self._bring(index))
        self._hand_over_rest()

    def withhold(self) -> None:
        """Hand over what is left as zeros: this member contributes nothing."""
        for slot in self.slots:
            if slot.bucket >= self._next:
                self._views[slot.parameter].zero_()
        self._used = [0.0] * len(self.parameters)
        self._hand_over_rest()

    def spread(self, unused: Collection[int], factor: float = 1.0) -> None:
        """Give each parameter its summed gradient times a factor, added to what it had.

        None if nobody had one, as in plain training.
        """
        for flat, host in zip(self.flats, self.host, strict=True):
            if flat is not host and not self._on_device:
                flat.copy_(host, non_blocking=True)
        for index in self._chosen:
            self.parameters[index].grad = self._views[index]
        for index in unused:
            if index in self._chosen:
                self.parameters[index].grad = None
        self.settle(factor)

    def settle(self, factor: float = 1.0) -> None:
        """Scale the new gradients, and add those from before."""
        self._put = None
        new = [self.parameters[index].grad for index in self._chosen]
        dense = [grad for grad in new if grad is not None and not grad.is_sparse]
        if factor != 1.0 and dense:
            torch._foreach_mul_(dense, factor)
        for grad in new:
            if factor != 1.0 and grad is not None and grad.is_sparse:
                grad.mul_(factor)
        for index, before in self._before.items():
            parameter = self.parameters[index]
            parameter.grad = before if parameter.grad is None else parameter.grad.add_(before)
        self._before = {}
        for index in self.sparse:
            parameter = self.parameters[index]
            if parameter.grad is not None and not parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_sparse(1)  # rows without a gradient stay out

    def abandon(self) -> None:
        """Drop a void step: nothing of it may reach the next one."""
        self._put, self.watching = None, False
        if self._copies is not None:
            with contextlib.suppress(Exception):
                self._copies.wait()

    def _ready(self, index: int) -> Callable[[Any], None]:
        def hook(parameter: Any) -> None:
            if not self.watching:
                return
            if not self._passing:
                raise BadTrainingError(
                    f"a plain .backward() reached {self._names[index]}, which the other workers would "
                    "not hear of: call ctx.backward(losses), or torch.autograd.grad() for a gradient "
                    "of your own"
                )
            if self._put is None or self._adding or index not in self._chosen:
                return
            slot = self._slot[index]
            self._bring(index)
            if slot.bucket < self._next:
                # Reentrant checkpointing of a shared block: its gradient comes in several parts.
                self.torn = self._late = True
            elif not self._used[index]:
                self._used[index] = 1.0
                self._waiting[slot.bucket] -= 1
                if not self._late:
                    self._hand_over(self._complete())

        return hook

    def _bring(self, index: int) -> bool:
        """Bring a gradient to its place in the bucket, zeros without one; return whether it has one."""
        parameter, view = self.parameters[index], self._views[index]
        if parameter.grad is None:
            view.zero_()
            return False
        if parameter.grad is not view:
            grad = parameter.grad
            view.copy_(grad.to_dense() if grad.is_sparse else grad)
            parameter.grad = view
        return True

    def _complete(self) -> int:
        """Return the first bucket that waits for gradients."""
        ready = self._next
        while ready < len(self._waiting) and self._waiting[ready] == 0:
            ready += 1
        return ready

    def _hand_over_rest(self) -> None:
        self._hand_over(len(self.flats))
        if self._copies is not None:
            self._copies.wait()

    def _hand_over(self, end: int) -> None:
        assert self._put is not None
        while self._next < end:
            bucket = self._next
            self._next += 1
            if not self._summed[bucket]:
                continue
            if self._copies is None or self._on_device or not self.flats[bucket].is_cuda:
                self._put(bucket)
            else:
                self._copies.begin(self.flats[bucket], self.host[bucket], self._put, bucket)

    def _flat(self, bucket: int) -> Tensor:
        inside = [slot for slot in self.slots if slot.bucket == bucket]
        first = self.parameters[inside[0].parameter]
        return torch.zeros(inside[-1].end, dtype=first.dtype, device=first.device)


class _Copies:
    """Buckets being copied from a GPU to the host: handed over on arrival."""

    def __init__(self, device: torch.device) -> None:
        self._queue: SimpleQueue[tuple[Any, Callable[[int], None], int]] = SimpleQueue()
        self._stream = torch.cuda.Stream(device)
        self._left = threading.Semaphore(0)
        self._begun = 0
        self._error: BaseException | None = None
        threading.Thread(target=self._serve, name="muster-copies", daemon=True).start()

    def begin(self, flat: Tensor, host: Tensor, put: Callable[[int], None], bucket: int) -> None:
        """Start the copy behind what the device has queued."""
        self._stream.wait_stream(torch.cuda.current_stream(flat.device))
        with torch.cuda.stream(self._stream):
            host.copy_(flat, non_blocking=True)
            event = torch.cuda.Event(blocking=True)  # a spinning thread would cost a core
            event.record(self._stream)
        self._begun += 1
        self._queue.put((event, put, bucket))

    def wait(self) -> None:
        """Wait until all copies are handed over."""
        while self._begun:
            self._left.acquire()
            self._begun -= 1
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _serve(self) -> None:
        while True:
            event, put, bucket = self._queue.get()
            try:
                event.synchronize()
                put(bucket)
            except BaseException as problem:  # raised again in `wait`
                self._error = problem
            finally:
                self._left.release()
