"""A small convolutional network tells five shapes apart: `python examples/elastic/cnn.py`, alone, or

    python -m muster.runtime --workers 2 examples/elastic/cnn.py

The pictures are drawn here: discs, rings, squares, crosses and stripes of any size and place, in noise.
The training is declared: it says nothing of workers, and its result is the same with any number of them
but for the statistics of BatchNorm, which each worker keeps of its own samples.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import muster

SIDE = 24
SHAPES = ("disc", "ring", "square", "cross", "stripes")


def pictures(count: int, seed: int) -> TensorDataset:
    """Pictures with one channel, and the number of the shape in each."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(len(SHAPES), (count,), generator=draw)
    size = 4 + 5 * torch.rand(count, 1, 1, generator=draw)
    top, left = size + (SIDE - 2 * size) * torch.rand(2, count, 1, 1, generator=draw)
    place = torch.arange(SIDE)
    down, right = (place.reshape(-1, 1) - top) / size, (place - left) / size
    clean = torch.stack(drawn(down, right))[labels, torch.arange(count)].float()
    noisy = clean + 0.4 * torch.randn(clean.shape, generator=draw)
    return TensorDataset(noisy.unsqueeze(1), labels)


def drawn(down: Tensor, right: Tensor) -> list[Tensor]:
    """Every shape at these distances from its centre, which are 1 at its edge."""
    far, inside = torch.hypot(down, right), (down.abs() < 0.8) & (right.abs() < 0.8)
    arms = (down.abs() < 0.3) | (right.abs() < 0.3)
    return [far < 1, (far < 1) & (far > 0.6), inside, inside & arms, inside & (down * 5 % 2 < 1)]


def network() -> nn.Module:
    """Three convolutions, each followed by a norm, and a dense layer."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((1, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * (SIDE // 8) ** 2, len(SHAPES)))


def main() -> None:
    """Train, then look at pictures that were not trained on."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pictures", type=int, default=16_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--global-batch", type=int, default=128)
    parser.add_argument("--checkpoint", help="a folder to write to and to go on from")
    parser.add_argument("--seed", type=int, default=0, help="of parameters and of the data's order")
    asked = parser.parse_args()

    torch.manual_seed(asked.seed)
    model = network()
    ctx = muster.Training(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9),
        loss=nn.CrossEntropyLoss(reduction="none"),
        dataset=pictures(asked.pictures, seed=0),
        global_batch=asked.global_batch,
        epochs=asked.epochs,
        seed=asked.seed,
        checkpoint=asked.checkpoint,
    ).run()

    if ctx.primary:
        images, labels = pictures(1_000, seed=1).tensors
        with torch.no_grad():
            guesses = model.eval().cpu()(images).argmax(1)
        right = (guesses == labels).float().mean().item()
        print(f"final loss {ctx.epoch_loss:.4f}, {right:.1%} of new pictures right")


if __name__ == "__main__":
    main()
