"""Gradients in flat buckets, handed over while the backward pass still runs.

A bucket is one flat tensor; parameters that become ready together share one. Each gradient is copied
into its place when it is ready, and a bucket is handed over when it and all buckets before it are
complete: all members use the same order. On a GPU a bucket has a pinned copy in host memory, which is
summed.
"""

import contextlib
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import torch
from torch import Tensor

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


def lay_out(parameters: Sequence[Any], order: Sequence[int]) -> tuple[GradientSlot, ...]:
    """Lay out slots in the given order; a bucket has one dtype and one device."""
    slots: list[GradientSlot] = []
    kind, used, bucket = None, 0, -1
    for index in order:
        parameter = parameters[index]
        size, this = parameter.numel() * parameter.element_size(), (parameter.dtype, parameter.device)
        begin = slots[-1].end if slots else 0
        if this != kind or used + size > (FIRST if bucket == 0 else LIMIT):
            kind, used, bucket, begin = this, 0, bucket + 1, 0
        used += size
        slots.append(GradientSlot(index, bucket, begin, begin + parameter.numel()))
    return tuple(slots)


class Buckets:
    """The flat buckets of a model, and the hooks that fill them."""

    def __init__(self, parameters: Sequence[Any], order: Sequence[int]) -> None:
        self.parameters = list(parameters)
        self.slots = lay_out(parameters, order)
        count = self.slots[-1].bucket + 1 if self.slots else 0
        self.flats = [self._flat(bucket) for bucket in range(count)]
        """The buckets on the parameters' device."""
        self.host = [
            torch.zeros(flat.shape, dtype=flat.dtype, pin_memory=True) if flat.is_cuda else flat
            for flat in self.flats
        ]
        self._views = {
            s.parameter: self.flats[s.bucket][s.begin : s.end].view_as(self.parameters[s.parameter])
            for s in self.slots
        }
        self._slot = {slot.parameter: slot for slot in self.slots}
        self._waiting = [0] * len(self.flats)
        self._next = 0
        self._put: Callable[[int], None] | None = None
        self._on_device = False
        self._used = [0.0] * len(self.parameters)
        gpu = next((flat.device for flat in self.flats if flat.is_cuda), None)
        self._copies = _Copies(gpu) if gpu is not None else None
        for index, parameter in enumerate(self.parameters):
            parameter.register_post_accumulate_grad_hook(self._ready(index))

    @property
    def checksum(self) -> int:
        """A number that agrees among members with the same model; fits into a float64."""
        text = repr([(s, str(self.parameters[s.parameter].dtype)) for s in self.slots])
        return zlib.crc32(text.encode())

    @property
    def used(self) -> Tensor:
        """1 for each parameter with a gradient in this step."""
        return torch.tensor(self._used)

    def begin(self, put: Callable[[int], None], on_device: bool = False) -> None:
        """Begin a step; call `put` with each bucket when it is ready.

        `on_device`: sum the buckets on the parameters' device, not in host memory.
        """
        self._put, self._next, self._on_device = put, 0, on_device
        self._waiting = [0] * len(self.flats)
        for slot in self.slots:
            self._waiting[slot.bucket] += 1
        self._used = [0.0] * len(self.parameters)
        for parameter in self.parameters:
            parameter.grad = None

    def idle(self) -> None:
        """Leave gradients as they are: nothing is summed in this step."""
        self._put = None

    def finish(self) -> None:
        """Hand over what is left after the backward pass, zeros where no gradient came."""
        for slot in self.slots:
            if not self._used[slot.parameter]:
                self._views[slot.parameter].zero_()
        self._hand_over_rest()

    def withhold(self) -> None:
        """Hand over what is left as zeros: this member contributes nothing."""
        for slot in self.slots:
            if slot.bucket >= self._next:
                self._views[slot.parameter].zero_()
        self._used = [0.0] * len(self.parameters)
        self._hand_over_rest()

    def spread(self, unused: Sequence[int]) -> None:
        """Give each parameter its summed gradient; None if nobody had one, as in plain training."""
        for flat, host in zip(self.flats, self.host, strict=True):
            if flat is not host and not self._on_device:
                flat.copy_(host, non_blocking=True)
        for index, parameter in enumerate(self.parameters):
            parameter.grad = self._views[index]
        for index in unused:
            self.parameters[index].grad = None
        self._put = None

    def scale(self, factor: float) -> None:
        """Scale all gradients: the step had fewer samples than planned."""
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(factor)

    def abandon(self) -> None:
        """Drop a void step: nothing of it may reach the next one."""
        self._put = None
        if self._copies is not None:
            with contextlib.suppress(Exception):
                self._copies.wait()

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

    def _hand_over_rest(self) -> None:
        self._hand_over(len(self.flats))
        if self._copies is not None:
            self._copies.wait()

    def _hand_over(self, end: int) -> None:
        assert self._put is not None
        while self._next < end:
            bucket = self._next
            self._next += 1
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
