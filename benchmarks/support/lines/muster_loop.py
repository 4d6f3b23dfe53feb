"""The same loop with Muster: `python -m muster.runtime --workers 3 muster_loop.py`."""

import argparse

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import muster


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=8192)
    asked = parser.parse_args()
    torch.manual_seed(0)
    labels = torch.randint(4, (asked.samples,))
    images = torch.randn(asked.samples, 1, 16, 16) + labels.reshape(-1, 1, 1, 1) / 4
    dataset = TensorDataset(images, labels)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    ctx.data(dataset, global_batch=256, epochs=3)
    for x, y in ctx.steps():
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y, reduction="none")
        ctx.backward(loss)
        optimizer.step()
    print(f"final loss {ctx.loss:.4f}")


if __name__ == "__main__":
    main()
