"""Four of the shipped models as plain PyTorch modules, to time real steps on a real device."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


class Bottleneck(nn.Module):
    """A block of ResNet: 1x1, 3x3, 1x1 and the way around them."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        out = 4 * channels
        self.way = nn.Sequential(
            *_unit(inputs, channels, 1),
            nn.ReLU(inplace=True),
            *_unit(channels, channels, 3, stride),
            nn.ReLU(inplace=True),
            *_unit(channels, out, 1),
        )
        around = inputs != out or stride != 1
        self.around = nn.Sequential(*_unit(inputs, out, 1, stride)) if around else nn.Identity()

    def forward(self, x: Any) -> Any:
        """The sum of both ways."""
        return torch.relu_(self.way(x) + self.around(x))


def _unit(inputs: int, outputs: int, kernel: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return conv, nn.BatchNorm2d(outputs)


def resnet50() -> nn.Module:
    """ResNet-50 (He et al. 2015)."""
    layers: list[nn.Module] = [*_unit(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for block in range(count):
            layers.append(Bottleneck(inputs, 64 << stage, 2 if stage and not block else 1))
            inputs = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def vgg16() -> nn.Module:
    """VGG with 16 layers (Simonyan and Zisserman 2014)."""
    layers: list[nn.Module] = []
    inputs = 3
    for channels, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = channels
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    for width in (25_088, 4096):
        layers += [nn.Linear(width, 4096), nn.ReLU(inplace=True), nn.Dropout()]
    return nn.Sequential(*layers, nn.Linear(4096, 1000))


class Lstm(nn.Module):
    """A word language model of six layers of LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Embedding(10_000, 1500)
        self.rnns = nn.ModuleList(nn.LSTM(1500, 1500, batch_first=True) for _ in range(6))
        self.decoder = nn.Linear(1500, 10_000)

    def forward(self, tokens: Any) -> Any:
        """Scores of the next word at each position."""
        x = self.encoder(tokens)
        for rnn in self.rnns:
            x, _ = rnn(x)
        return self.decoder(x)


class Gpt2(nn.Module):
    """GPT-2 small, its decoder tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50_257, 768), nn.Embedding(1024, 768)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                768, 12, 3072, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(12)
        )
        self.norm = nn.LayerNorm(768)

    def forward(self, tokens: Any) -> Any:
        """Scores of the next word at each position."""
        length = tokens.shape[1]
        x = self.words(tokens) + self.places(torch.arange(length, device=tokens.device))
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        return self.norm(x) @ self.words.weight.t()


IMAGE, WORDS, TOKENS = (3, 224, 224), (35,), (1024,)

NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "resnet50": (resnet50, IMAGE, 1000),
    "vgg16": (vgg16, IMAGE, 1000),
    "lstm6": (Lstm, WORDS, 10_000),
    "gpt2-small": (Gpt2, TOKENS, 50_257),
}
"""How to build each, the shape of a sample, and how many classes it tells apart."""
