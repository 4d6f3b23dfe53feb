"""The models whose losses are recorded: small, and of many kinds."""

import torch
from torch import Tensor, nn


def linear(inputs: int, outputs: int) -> nn.Module:
    """Logistic (softmax) regression."""
    return nn.Linear(inputs, outputs)


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Module:
    """Two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, outputs),
    )


def cnn() -> nn.Module:
    """Two convolutions and a dense layer, for 8 by 8 pictures."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def autoencoder(narrow: int) -> nn.Module:
    """64 pixels through a narrow layer and back."""
    return nn.Sequential(
        nn.Linear(64, 32),
        nn.ReLU(),
        nn.Linear(32, narrow),
        nn.Linear(narrow, 32),
        nn.ReLU(),
        nn.Linear(32, 64),
    )


class Residual(nn.Module):
    """Two convolutions with normalisation, and the input added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.inner(x))


def resnet(channels: int) -> nn.Module:
    """Two residual blocks."""
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1),
        Residual(channels),
        nn.MaxPool2d(2),
        Residual(channels),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, 10),
    )


class Recurrent(nn.Module):
    """A character language model with one LSTM or GRU layer."""

    def __init__(self, layer: type[nn.LSTM] | type[nn.GRU], hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(128, hidden)
        self.layer = layer(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 128)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.layer(self.embed(x))
        return self.out(states).flatten(0, 1)


class Transformer(nn.Module):
    """A character language model with causal self-attention."""

    def __init__(self, width: int, layers: int, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(128, width)
        self.place = nn.Parameter(torch.zeros(length, width))
        block = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, 128)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, x: Tensor) -> Tensor:
        states = self.blocks(self.embed(x) + self.place, mask=self.mask, is_causal=True)
        return self.out(states).flatten(0, 1)


class Patches(nn.Module):
    """Self-attention over the 16 patches of a digit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(1, width, 2, stride=2)
        self.place = nn.Parameter(torch.zeros(16, width))
        block = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(block, 1, enable_nested_tensor=False)
        self.out = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.cut(x).flatten(2).transpose(1, 2)
        return self.out(self.blocks(patches + self.place).mean(1))


class Factors(nn.Module):
    """A table as the product of two thin ones, with a bias for each row and column."""

    def __init__(self, rows: int, columns: int, rank: int) -> None:
        super().__init__()
        self.rows, self.columns = nn.Embedding(rows, rank + 1), nn.Embedding(columns, rank + 1)
        for table in (self.rows, self.columns):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, pairs: Tensor) -> Tensor:
        row, column = self.rows(pairs[:, 0]), self.columns(pairs[:, 1])
        product = (row[:, 1:] * column[:, 1:]).sum(1)
        return (product + row[:, 0] + column[:, 0]).unsqueeze(1)
