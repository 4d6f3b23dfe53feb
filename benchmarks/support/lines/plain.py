"""A small CNN trained on one device: `python plain.py`."""

import argparse

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


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
    loader = DataLoader(dataset, batch_size=256, shuffle=True)
    for _ in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
