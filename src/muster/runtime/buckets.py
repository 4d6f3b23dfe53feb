"""Gradients in flat buckets, handed over while the backward pass still runs.

A bucket is one flat tensor; parameters that become ready together share one. Each parameter's gradient
is copied into its place as soon as it is ready, and a bucket is handed over when all of it is there and
all buckets before it are: members must hand over in one order. On a GPU a bucket has a pinned twin in
the host's memory, which is what is summed.
"""

import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import torch
from torch import Tensor

FIRST = 1 << 20
"""Bytes of the first bucket: a small one lets the network start early."""
LIMIT = 25 << 20
"""Bytes of the others: large enough that a collective's fixed cost does not show."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a parameter's gradient lies: its index in the model, bucket, and elements [begin, end)."""

    parameter: int
    bucket: int
    begin: int
    end: int


def lay_out(parameters: Sequence[Any], order: Sequence[int]) -> tuple[Slot, ...]:
    """Slots in the order given; a bucket holds one type of numbers on one device."""
    slots: list[Slot] = []
    kind, used, bucket = None, 0, -1
    for index in order:
        parameter = parameters[index]
        size, this = parameter.numel() * parameter.element_size(), (parameter.dtype, parameter.device)
        begin = slots[-1].end if slots else 0
        if this != kind or used + size > (FIRST if bucket == 0 else LIMIT):
            kind, used, bucket, begin = this, 0, bucket + 1, 0
        used += size
        slots.append(Slot(index, bucket, begin, begin + parameter.numel()))
    return tuple(slots)


class Buckets:
    """The flat buckets of a model, and the hooks that fill them."""

    def __init__(self, parameters: Sequence[Any], order: Sequence[int]) -> None:
        self.parameters = list(parameters)
        self.slots = lay_out(parameters, order)
        self._flats = [self._flat(bucket) for bucket in range(self._count())]
        self.host = [self._twin(flat) for flat in self._flats]
        self._views = self._make_views()
        self._slot = {slot.parameter: slot for slot in self.slots}
        self._waiting = [0] * len(self._flats)
        self._next = 0
        self._put: Callable[[int], None] | None = None
        self._used = [0.0] * len(self.parameters)
        self._copies = _Copies() if any(flat.is_cuda for flat in self._flats) else None
        self._hooks = [
            p.register_post_accumulate_grad_hook(self._ready(i)) for i, p in enumerate(self.parameters)
        ]

    @property
    def checksum(self) -> int:
        """Alike for members that train the same model; fits into a float64."""
        text = repr([(s, str(self.parameters[s.parameter].dtype)) for s in self.slots])
        return zlib.crc32(text.encode())

    @property
    def used(self) -> Tensor:
        """1 for each parameter that got a gradient in this step."""
        return torch.tensor(self._used)

    def begin(self, put: Callable[[int], None]) -> None:
        """A step begins: `put` is called with each bucket as it becomes ready."""
        self._put, self._next = put, 0
        self._waiting = [0] * len(self._flats)
        for slot in self.slots:
            self._waiting[slot.bucket] += 1
        self._used = [0.0] * len(self.parameters)
        for parameter in self.parameters:
            parameter.grad = None

    def idle(self) -> None:
        """Nothing is summed in this step: leave gradients as they are."""
        self._put = None

    def finish(self) -> None:
        """The backward pass is over: hand over what is left, zero where no gradient came."""
        for slot in self.slots:
            if not self._used[slot.parameter]:
                self._views[slot.parameter].zero_()
        self._hand_over(len(self._flats))
        if self._copies is not None:
            self._copies.wait()

    def withhold(self) -> None:
        """This member adds nothing: hand over what has not gone yet as zeros."""
        for slot in self.slots:
            if slot.bucket >= self._next:
                self._views[slot.parameter].zero_()
        self._used = [0.0] * len(self.parameters)
        self._hand_over(len(self._flats))
        if self._copies is not None:
            self._copies.wait()

    def spread(self, unused: Sequence[int]) -> None:
        """Give every parameter its summed gradient; none where nobody had one, as in plain training."""
        for flat, host in zip(self._flats, self.host, strict=True):
            if flat is not host:
                flat.copy_(host, non_blocking=True)
        for index, parameter in enumerate(self.parameters):
            parameter.grad = self._views[index]
        for index in unused:
            self.parameters[index].grad = None
        self._put = None

    def scale(self, factor: float) -> None:
        """Multiply every gradient: the step had fewer samples than it was begun for."""
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(factor)

    def close(self) -> None:
        """Take the hooks off the model."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _ready(self, index: int) -> Callable[[Any], None]:
        def hook(parameter: Any) -> None:
            if self._put is None or self._used[index]:
                return
            self._used[index] = 1.0
            self._views[index].copy_(parameter.grad)
            slot = self._slot[index]
            self._waiting[slot.bucket] -= 1
            ready = self._next
            while ready < len(self._waiting) and self._waiting[ready] == 0:
                ready += 1
            self._hand_over(ready)

        return hook

    def _hand_over(self, end: int) -> None:
        assert self._put is not None
        while self._next < end:
            bucket = self._next
            self._next += 1
            if self._copies is None or not self._flats[bucket].is_cuda:
                self._put(bucket)
            else:
                self._copies.begin(self._flats[bucket], self.host[bucket], self._put, bucket)

    def _count(self) -> int:
        return self.slots[-1].bucket + 1 if self.slots else 0

    def _flat(self, bucket: int) -> Tensor:
        inside = [slot for slot in self.slots if slot.bucket == bucket]
        first = self.parameters[inside[0].parameter]
        return torch.zeros(inside[-1].end, dtype=first.dtype, device=first.device)

    def _twin(self, flat: Tensor) -> Tensor:
        return torch.zeros(flat.shape, dtype=flat.dtype, pin_memory=True) if flat.is_cuda else flat

    def _make_views(self) -> dict[int, Tensor]:
        return {
            s.parameter: self._flats[s.bucket][s.begin : s.end].view_as(self.parameters[s.parameter])
            for s in self.slots
        }


class _Copies:
    """Buckets on their way from a GPU to the host: handed over when they have arrived."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Any, Callable[[int], None], int] | None] = SimpleQueue()
        self._stream = torch.cuda.Stream()
        self._left = threading.Semaphore(0)
        self._begun = 0
        self._error: BaseException | None = None
        threading.Thread(target=self._serve, name="muster-copies", daemon=True).start()

    def begin(self, flat: Tensor, host: Tensor, put: Callable[[int], None], bucket: int) -> None:
        """Start the copy behind what the device has queued so far."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            host.copy_(flat, non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        self._begun += 1
        self._queue.put((event, put, bucket))

    def wait(self) -> None:
        """Until all that was begun has been handed over."""
        while self._begun:
            self._left.acquire()
            self._begun -= 1
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _serve(self) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                return
            event, put, bucket = item
            try:
                event.synchronize()
                put(bucket)
            except BaseException as problem:  # raised again where the step is waited for
                self._error = problem
            finally:
                self._left.release()
