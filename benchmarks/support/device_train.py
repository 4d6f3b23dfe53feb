"""The training that benchmarks/runtime_device.py runs: with Muster, or the same loop in plain torch.

fp16    autocast with a GradScaler whose first scales overflow, and clipping by norm
memory  micro_batch="auto" on a device that has room for a part of the batch alone

Needs torch and the standard library alone. Each process writes what it saw to RECORD.TASK.json.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.gpu_train import losses as plain_losses
from support.gpu_train import make, settle_device

CLIP = 0.5
SCALE, GROWTH = 2.0**30, 8
"""The scaler's first scale, far above what fp16 can hold, and the good steps after which it doubles."""


@dataclass
class Seen:
    """What one process saw."""

    task: str
    scales: dict[int, float] = field(default_factory=dict)
    """The scaler's after each step that counted, of a worker that has the whole state."""
    rows: list[int] = field(default_factory=list)
    """Samples of each forward pass."""
    peak: int = 0
    """Most bytes that were allocated on the device."""


class Limited:
    """A device with less memory; a CPU has none to run out of and counts samples instead."""

    def __init__(self, device: torch.device, most: int, seen: Seen) -> None:
        """`most`: bytes of a GPU's memory, samples on a CPU; 0: all there is."""
        self._rows, self._seen = most if device.type == "cpu" else 0, seen
        if most and not self._rows:
            total = torch.cuda.get_device_properties(device).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, most / total), device)

    def losses(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """One for each sample."""
        self._seen.rows.append(len(x))
        if self._rows and len(x) > self._rows:
            raise torch.OutOfMemoryError("no room on a device that is pretended")
        return plain_losses(model, x, y)


class Half:
    """fp16 with a scaler, or nothing of both."""

    def __init__(self, device: torch.device, wanted: bool, seen: Seen) -> None:
        self.scaler = torch.amp.GradScaler(
            device.type, init_scale=SCALE, growth_interval=GROWTH, enabled=wanted
        )
        self._device, self._wanted, self._seen = device, wanted, seen

    def casting(self) -> AbstractContextManager[Any]:
        """The forward pass in 16 bits."""
        return torch.autocast(self._device.type, torch.float16) if self._wanted else nullcontext()

    def update(self, model: nn.Module, optimizer: Any) -> None:
        """Clip and update, unless gradients overflowed."""
        self.scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        self.scaler.step(optimizer)
        self.scaler.update()

    def note(self, step: int) -> None:
        """Note the scale after a step that counted."""
        self._seen.scales[step] = self.scaler.get_scale()


def with_muster(options: argparse.Namespace, seen: Seen) -> nn.Module:
    """Train as one of the workers; return the model."""
    import muster

    model, optimizer, data = make(options)
    ctx = muster.init()
    half, limited = Half(ctx.device, options.fp16, seen), Limited(ctx.device, options.most, seen)
    ctx.wrap(model, optimizer)
    ctx.keep(scaler=half.scaler)
    micro = "auto" if options.most else None
    ctx.data(data, global_batch=options.batch, steps=options.steps, micro_batch=micro)
    given = {"scaler": half.scaler} if options.fp16 else {}
    for batch in ctx.steps():
        _pace(options)
        optimizer.zero_grad()
        for x, y in ctx.parts(batch):
            ctx.attempt(lambda x=x, y=y: _forward(half, limited, model, x, y), **given)  # type: ignore[misc]
        half.update(model, optimizer)
        if ctx.applied and ctx.entered:
            half.note(ctx.step)
    settle_device(ctx.device)()
    _finish(options, seen, ctx.device, model if ctx.primary else None)
    return model


def plain(options: argparse.Namespace, seen: Seen) -> None:
    """The same in one process, with the whole batch at once."""
    model, optimizer, data = make(options)
    device = torch.device(options.device)
    model.to(device)
    half, limited = Half(device, options.fp16, seen), Limited(device, 0, seen)
    for step, (x, y) in enumerate(_batches(data, options)):
        optimizer.zero_grad()
        mean = _forward(half, limited, model, x.to(device), y.to(device)).mean()
        half.scaler.scale(mean).backward()
        half.update(model, optimizer)
        half.note(step)
    settle_device(device)()
    _finish(options, seen, device, model)


def largest(options: argparse.Namespace, seen: Seen) -> None:
    """Note how many samples fit at most, in sixteenths of the batch: the last of `rows`."""
    model, optimizer, data = make(options)
    device = torch.device(options.device)
    model.to(device)
    limited = Limited(device, options.most, seen)
    for _ in range(2):  # the optimiser's state and the gradients take room, too
        _fits(limited, model, optimizer, data, 1)
    few = max(1, options.batch // 16)
    for count in range(options.batch, 0, -few):
        if _fits(limited, model, optimizer, data, count):
            break
    _finish(options, seen, device, None)


def _fits(limited: Limited, model: nn.Module, optimizer: Any, data: Any, count: int) -> bool:
    x, y = data[:count]
    device = next(model.parameters()).device
    optimizer.zero_grad()
    try:
        limited.losses(model, x.to(device), y.to(device)).mean().backward()
        optimizer.step()
    except torch.OutOfMemoryError:
        return False
    return True


def _forward(half: Half, limited: Limited, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    with half.casting():
        return limited.losses(model, x, y)


def _batches(data: Any, options: argparse.Namespace) -> Iterator[tuple[Tensor, ...]]:
    """Yield batches in Muster's order."""
    from muster.runtime.data.samples import Order, Position

    order, position = Order(options.samples, options.batch), Position()
    for _ in range(options.steps):
        yield tuple(part.index_select(0, order.ids(position)) for part in data.tensors)
        position = order.after(position)


def _pace(options: argparse.Namespace) -> None:
    """Slow steps down until all that happens to the workers has happened."""
    if options.release and not Path(options.release).exists():
        time.sleep(0.05)


def _finish(
    options: argparse.Namespace, seen: Seen, device: torch.device, model: nn.Module | None
) -> None:
    if device.type == "cuda":
        seen.peak = torch.cuda.max_memory_allocated(device)
    if model is not None and options.save:
        torch.save({name: value.cpu() for name, value in model.state_dict().items()}, options.save)
    Path(f"{options.record}.{seen.task}.json").write_text(json.dumps(asdict(seen)))


WAYS: dict[str, Callable[[argparse.Namespace, Seen], Any]] = {
    "muster": with_muster,
    "plain": plain,
    "largest": largest,
}


def main() -> None:
    """Train as told."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--way", choices=WAYS, default="muster")
    for name in ("width", "pixels", "batch", "samples", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--record", required=True, help="where to write RECORD.TASK.json")
    parser.add_argument("--device", default="cpu", help="without Muster")
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--most", type=int, default=0, help="bytes of the device, samples on a CPU")
    parser.add_argument("--save", default="", help="file for the final parameters")
    parser.add_argument("--release", default="", help="file from whose coming on steps are not paced")
    parser.set_defaults(net="small", double=False)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    WAYS[options.way](options, Seen(os.environ.get("MUSTER_TASK", options.way)))


if __name__ == "__main__":
    main()
