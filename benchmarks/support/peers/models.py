"""Models, data and marks that Muster's and its peers' training scripts share: the work is the same."""

import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

WIDTH, DEPTH = 2048, 6
CLASSES, IMAGE = 10, 32
LETTERS, TEXT = 256, 64


class Block(nn.Module):  # type: ignore[misc]
    """A residual block of ResNet; GroupNorm, so that shares of a batch do not matter."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.two = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm_one, self.norm_two = nn.GroupNorm(8, outside), nn.GroupNorm(8, outside)
        self.skip = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out = functional.relu(self.norm_one(self.one(x)))
        return functional.relu(self.norm_two(self.two(out)) + self.skip(x))


class Transformer(nn.Module):  # type: ignore[misc]
    """A small GPT: causal, learned positions."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, width), nn.Embedding(TEXT, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, LETTERS, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(TEXT))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.letters(x) + self.places.weight
        return self.out(self.blocks(hidden, mask=self.mask, is_causal=True)).transpose(1, 2)


def wide(depth: int = DEPTH) -> nn.Module:
    """Six layers of 2048 by 2048: 25.2 M parameters, 200 MB with SGD's momentum."""
    layers: list[Any] = []
    for _ in range(depth):
        layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def resnet() -> nn.Module:
    """Eight convolutions and skips, 2.8 M parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1), Block(32, 64, 2), Block(64, 128, 2), Block(128, 256, 2),
        Block(256, 256, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, CLASSES),
    )  # fmt: skip


def make(name: str) -> tuple[nn.Module, Any, TensorDataset]:
    """Model, SGD with momentum, and data of random numbers: "wide", "resnet", "gpt", "tiny".

    "adam": twelve layers, 201 MB of parameters, with Adam: 806 MB with state and gradients.
    """
    torch.manual_seed(1)
    if name in ("wide", "adam"):
        model = wide(2 * DEPTH if name == "adam" else DEPTH)
        data = TensorDataset(torch.randn(512, WIDTH), torch.randint(WIDTH, (512,)))
    elif name == "resnet":
        model = resnet()
        data = TensorDataset(torch.randn(512, 3, IMAGE, IMAGE), torch.randint(CLASSES, (512,)))
    elif name == "tiny":
        model = nn.Linear(16, CLASSES)
        data = TensorDataset(torch.randn(1024, 16), torch.randint(CLASSES, (1024,)))
    else:
        model = Transformer(192, 6)
        text = torch.randint(LETTERS, (512, TEXT + 1))
        data = TensorDataset(text[:, :-1].contiguous(), text[:, 1:].contiguous())
    if name == "adam":
        return model, torch.optim.Adam(model.parameters(), lr=1e-4), data
    return model, torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9), data


def losses(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """One for each sample."""
    each = functional.cross_entropy(model(x), y, reduction="none")
    return each if each.dim() == 1 else each.flatten(1).mean(1)


class Marks:
    """Writes when each step was done, by a clock that all processes of this machine share."""

    def __init__(self, folder: str, name: str) -> None:
        self._file = Path(folder, f"{name}.marks").open("a", buffering=1, encoding="ascii")  # noqa: SIM115
        self._gates, self._name = Path(folder), name

    def mark(self, step: int, size: int, samples: int = 0) -> None:
        """A step is done: workers, and samples of this one."""
        now, busy = time.monotonic(), time.process_time()
        self._file.write(f"{step} {now:.6f} {size} {samples} {busy:.6f}\n")

    def peak(self) -> None:
        """Write the most memory that this process has held, in bytes."""
        lines = Path("/proc/self/status").read_text().splitlines()
        held = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
        self._gates.joinpath(f"{self._name}.peak").write_text(str(1024 * int(held)))

    def gate(self, step: int, block: int) -> None:
        """After every `block` steps: wait until the benchmark lets the next block begin."""
        if block and step % block == 0:
            wanted = self._gates / f"go-{step // block}"
            while not wanted.exists():
                time.sleep(0.002)


def threads_from_environment() -> None:
    """One thread, unless the environment says more."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
