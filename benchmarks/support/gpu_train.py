"""The training that benchmarks/runtime_gpu.py runs: with Muster, or the same loop in plain torch.

Launched by Muster it trains as one of the workers; with --plain it is one process that knows nothing of
Muster but the order of the samples. Needs torch and the standard library alone. Each process writes
what it saw to RECORD.TASK.json; all times are of the system's monotonic clock, in seconds.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

CLASSES, GROUPS = 10, 8
RATE, MOMENTUM = 0.01, 0.9
WARM = 10
"""Steps before the clock of the throughput starts: kernels are loaded, allocators have grown."""
BLOCKS = {"small": (1, 1, 1), "resnet18": (2, 2, 2, 2)}


@dataclass
class Record:
    """What one process saw."""

    task: str
    device: str
    begun: list[float] = field(default_factory=list)
    """When each turn of the loop began."""
    workers: list[int] = field(default_factory=list)
    formations: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    """Samples of the batch, here."""
    warm: float = 0.0
    """When the steps after the first few began, the device idle."""
    ended: float = 0.0
    """When all was computed."""
    first: float = 0.0
    """When the first step was computed."""
    saving: float = 0.0
    """When the state began to be saved."""
    live: str = ""
    """A file that tells when each turn began, as it begins."""


class Block(nn.Module):  # type: ignore[misc]
    """Two convolutions beside a short cut (He et al. 2016), with GroupNorm and a smooth activation.

    BatchNorm's statistics would be each worker's own; at a kink one bit decides, and the order of
    additions would show.
    """

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.GroupNorm(GROUPS, width) for _ in range(2)])
        same = before == width and stride == 1
        self.short = nn.Identity() if same else nn.Conv2d(before, width, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        inner = functional.gelu(self.norms[0](self.one(x)))
        return functional.gelu(self.norms[1](self.two(inner)) + self.short(x))


class ResNet(nn.Module):  # type: ignore[misc]
    """A residual network; "resnet18" at width 64 has the layers of ResNet-18."""

    def __init__(self, blocks: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        layers: list[nn.Module] = []
        before = width
        for stage, count in enumerate(blocks):
            for place in range(count):
                after = width * 2**stage
                layers.append(Block(before, after, 2 if stage and not place else 1))
                before = after
        self.layers, self.out = nn.Sequential(*layers), nn.Linear(before, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of images given as bytes: a quarter of what floats would move to the device."""
        scaled = images.to(self.out.weight.dtype) / 127.5 - 1
        x = functional.avg_pool2d(functional.gelu(self.stem(scaled)), 2)
        return self.out(self.layers(x).mean((2, 3)))


def make(options: argparse.Namespace) -> tuple[nn.Module, Any, TensorDataset]:
    """Model, optimiser and data, alike in every process."""
    torch.manual_seed(5)
    model = ResNet(BLOCKS[options.net], options.width)
    if options.double:
        model.double()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    pixels = options.pixels
    x = torch.randint(0, 256, (options.samples, 3, pixels, pixels), dtype=torch.uint8)
    y = torch.randint(0, CLASSES, (options.samples,))
    return model, optimizer, TensorDataset(x, y)


def losses(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """One for each sample."""
    return functional.cross_entropy(model(x), y, reduction="none")


def settle_device(device: torch.device) -> Callable[[], None]:
    """What waits until a device is idle."""
    return (lambda: torch.cuda.synchronize(device)) if device.type == "cuda" else (lambda: None)


def with_muster(options: argparse.Namespace) -> None:
    """One worker."""
    import muster

    if options.hosts:  # NCCL refuses two processes of one host on one GPU
        os.environ["NCCL_HOSTID"] = os.environ["MUSTER_TASK"]
    model, optimizer, data = make(options)
    ctx = muster.init()
    if ctx.device.type == "cuda" and options.feeders:
        torch.set_num_threads(options.feeders)
    ctx.wrap(model, optimizer)
    ctx.data(data, global_batch=options.batch, steps=options.steps)
    record = Record(os.environ.get("MUSTER_TASK", "alone"), str(ctx.device))
    if options.times:  # of those that are killed, too
        record.live = f"{options.times}.{record.task}.times"
    pause, idle = _pause(options, record.task), settle_device(ctx.device)
    try:
        for x, y in ctx.steps():
            _note(record, len(x), idle)
            record.workers.append(ctx.workers)
            record.formations.append(ctx.formation)
            optimizer.zero_grad()
            time.sleep(pause * len(x))
            ctx.backward(losses(model, x, y))
            optimizer.step()
        _end(record, idle)
        if options.save and ctx.primary:
            _save(model, options.save)
    finally:
        _write(record, options.record)


def plain(options: argparse.Namespace) -> None:
    """The loop that a careful user writes: the next batch is loaded and pinned ahead, no step waits."""
    model, optimizer, data = make(options)
    device = torch.device(options.device)
    model.to(device)
    step = _load(model, optimizer, options.load)
    record, idle = Record("plain", str(device)), settle_device(device)
    batches = _Ahead(data, options, step)
    for _ in range(options.steps):
        x, y = (part.to(device, non_blocking=True) for part in batches.next())
        _note(record, len(x), idle)
        optimizer.zero_grad()
        loss = losses(model, x, y).mean()
        loss.backward()
        optimizer.step()
        if options.items:
            loss.item()
        if not record.first:
            idle()
            record.first = time.monotonic()
    _end(record, idle)
    if options.save:
        _save(model, options.save)
    if options.keep:
        record.saving = time.monotonic()
        _keep(model, optimizer, step + options.steps, options.keep)
    _write(record, options.record)


class _Ahead:
    """Batches in Muster's order, each loaded by a thread while the one before is computed."""

    def __init__(self, data: TensorDataset, options: argparse.Namespace, step: int) -> None:
        from muster.runtime.data.samples import Order, Position

        self._data, self._order, self._position = (
            data,
            Order(options.samples, options.batch),
            Position(),
        )
        for _ in range(step):
            self._position = self._order.after(self._position)
        self._pinned = options.device != "cpu"
        self._pool = ThreadPoolExecutor(1)
        self._coming = self._pool.submit(self._take, self._position)

    def next(self) -> tuple[Tensor, ...]:
        """The next batch."""
        batch = self._coming.result()
        self._position = self._order.after(self._position)
        self._coming = self._pool.submit(self._take, self._position)
        return batch

    def _take(self, position: Any) -> tuple[Tensor, ...]:
        ids = self._order.ids(position)
        parts = tuple(part.index_select(0, ids) for part in self._data.tensors)
        return tuple(part.pin_memory() for part in parts) if self._pinned else parts


def _note(record: Record, rows: int, idle: Callable[[], None]) -> None:
    if len(record.begun) == WARM:
        idle()
        record.warm = time.monotonic()
    record.begun.append(time.monotonic())
    record.rows.append(rows)
    if record.live:
        with Path(record.live).open("a", encoding="ascii") as file:
            file.write(f"{record.begun[-1]}\n")


def _end(record: Record, idle: Callable[[], None]) -> None:
    idle()
    record.ended = time.monotonic()


def _pause(options: argparse.Namespace, task: str) -> float:
    """Seconds per sample that a task (or all) is slower: a stand-in for another device."""
    slow = dict(part.split("=") for part in options.slow.split(",") if part)
    return float(slow.get(task) or slow.get("all") or 0.0)


def _save(model: nn.Module, path: str) -> None:
    torch.save({name: value.cpu() for name, value in model.state_dict().items()}, path)


def _keep(model: nn.Module, optimizer: Any, step: int, path: str) -> None:
    """Save all that a restart needs."""
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)


def _load(model: nn.Module, optimizer: Any, path: str) -> int:
    """Go on from what was kept; the steps done."""
    if not path:
        return 0
    kept = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    return int(kept["step"])


def _write(record: Record, path: str) -> None:
    Path(f"{path}.{record.task}.json").write_text(json.dumps(asdict(record)))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--net", choices=sorted(BLOCKS), default="small")
    for name, default in (
        ("width", 32),
        ("pixels", 32),
        ("batch", 64),
        ("samples", 512),
        ("steps", 40),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--record", required=True, help="where to write RECORD.TASK.json")
    parser.add_argument("--plain", action="store_true", help="without Muster")
    parser.add_argument("--device", default="cpu", help="of the plain loop")
    parser.add_argument(
        "--items", action="store_true", help="the plain loop reads the loss in each step"
    )
    parser.add_argument("--exact", action="store_true", help="no TF32")
    parser.add_argument("--double", action="store_true", help="float64")
    parser.add_argument("--hosts", action="store_true", help="a host name for each task, for NCCL")
    parser.add_argument("--feeders", type=int, default=0, help="threads of a worker with a GPU")
    parser.add_argument("--slow", default="", help="TASK=SECONDS per sample,...")
    parser.add_argument("--times", default="", help="file for the beginning of each turn, as it begins")
    parser.add_argument("--save", default="", help="file for the final parameters")
    parser.add_argument("--keep", default="", help="file for all that a restart needs")
    parser.add_argument("--load", default="", help="file to go on from")
    return parser.parse_args(arguments)


def main() -> None:
    """Train as told."""
    options = parse()
    if options.exact:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    (plain if options.plain else with_muster)(options)


if __name__ == "__main__":
    main()
