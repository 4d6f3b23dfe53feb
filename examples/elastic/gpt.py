"""A small GPT learns to write as these docs do: `python examples/elastic/gpt.py`, alone, or

    python -m muster.runtime --workers 2 examples/elastic/gpt.py

Trained on the characters of the pages under docs/ by a loop of its own. Only the lines with `muster`
or `ctx` in them are not plain single-device code.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import muster

DOCS = Path(__file__).parents[2] / "docs"
LETTERS = 128
TEXT = 231_000
"""Characters trained on: an epoch takes the same time however the pages grow."""


def pieces(count: int, length: int) -> TensorDataset:
    """Return `count` characters in pieces of `length`, and the same pieces one character on."""
    text = "".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md")))
    codes = torch.tensor([min(ord(letter), LETTERS - 1) for letter in text[:count]])
    whole = (len(codes) - 1) // length * length
    return TensorDataset(codes[:whole].reshape(-1, length), codes[1 : whole + 1].reshape(-1, length))


class Gpt(nn.Module):
    """Self-attention over what came before; the decoder is the embedding."""

    def __init__(self, width: int, layers: int, length: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.places = nn.Parameter(0.02 * torch.randn(length, width))
        nn.init.normal_(self.letters.weight, std=0.02)
        block = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        norm = nn.LayerNorm(width)
        self.blocks = nn.TransformerEncoder(block, layers, norm, enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, letters: Tensor) -> Tensor:
        """Scores of the next character at each place."""
        length = letters.shape[1]
        x = self.letters(letters) + self.places[:length]
        x = self.blocks(x, mask=self.mask[:length, :length], is_causal=True)
        return x @ self.letters.weight.t()


@torch.no_grad()
def written(model: Gpt, begin: str, count: int, length: int) -> str:
    """Text that goes on from a beginning, one drawn character after the other."""
    text, draw = [ord(letter) for letter in begin], torch.Generator().manual_seed(0)
    for _ in range(count):
        chances = model(torch.tensor([text[-length:]]))[0, -1].mul(1.25).softmax(0)
        text.append(int(torch.multinomial(chances, 1, generator=draw)))
    return "".join(map(chr, text))


def main() -> None:
    """Train, then write a little."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--characters", type=int, default=TEXT, help="to train on")
    parser.add_argument("--length", type=int, default=64, help="characters seen at once")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--global-batch", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0, help="of parameters and of the data's order")
    asked = parser.parse_args()

    torch.manual_seed(asked.seed)
    model = Gpt(width=64, layers=3, length=asked.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    data = pieces(asked.characters, asked.length)
    ctx.data(data, global_batch=asked.global_batch, epochs=asked.epochs, seed=asked.seed)
    for x, y in ctx.steps():
        optimizer.zero_grad()
        losses = cross_entropy(model(x).transpose(1, 2), y, reduction="none").mean(1)
        ctx.backward(losses)
        optimizer.step()

    if ctx.primary:
        print(f"final loss {ctx.epoch_loss:.4f} a character")
        print(written(model.cpu(), "A job ", 200, asked.length))


if __name__ == "__main__":
    main()
