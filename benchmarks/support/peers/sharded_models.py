"""A transformer for models in parts, its data, and what a worker keeps of it."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY = 512


class Net(nn.Module):  # type: ignore[misc]
    """Transformer blocks of one width between an embedding and a head."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.0, "gelu", batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def make(width: int, layers: int, words: int) -> tuple[nn.Module, Tensor]:
    """Return the model and its data: sentences of this many words."""
    torch.manual_seed(1)
    return Net(width, layers), torch.randint(0, VOCABULARY, (4096, words))


def losses(model: nn.Module, x: Tensor) -> Tensor:
    """Return one per sentence."""
    return functional.cross_entropy(model(x).transpose(1, 2), x, reduction="none").mean(1)


def local(tensor: Any) -> Tensor:
    """Return what this process has of a tensor, which may be distributed."""
    found: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return found


def kept_bytes(model: nn.Module, optimizer: Any) -> int:
    """Return the bytes of parameters, gradients and optimiser state that a worker keeps."""
    states = [v for state in optimizer.state.values() for v in state.values() if isinstance(v, Tensor)]
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return sum(local(t).numel() * t.element_size() for t in (*model.parameters(), *grads, *states))
