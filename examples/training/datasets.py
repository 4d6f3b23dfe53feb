"""Real data that needs no network: what scikit-learn ships, and the text of Python's own library."""

import argparse
import email.message
import inspect
import re
import typing
from collections import Counter
from collections.abc import Callable
from types import ModuleType

import torch
from sklearn import datasets
from torch import Tensor
from torch.nn.functional import one_hot

Samples = tuple[Tensor, Tensor]
"""Inputs and targets, one row each."""


def digits() -> Samples:
    """1,797 hand-written digits, 8 by 8 pixels from 0 to 1, and what they are."""
    images, labels = datasets.load_digits(return_X_y=True)
    return torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)


def images() -> Samples:
    """The digits as pictures with one channel."""
    pixels, labels = digits()
    return pixels.reshape(-1, 1, 8, 8), labels


def pictures_of_themselves() -> Samples:
    """The digits, to be reconstructed."""
    pixels, _ = digits()
    return pixels, pixels


def noisy_digits() -> Samples:
    """The digits, one label in five replaced by a random one."""
    pixels, labels = digits()
    wrong = torch.rand(len(labels)) < 0.2
    return pixels, torch.where(wrong, torch.randint(10, (len(labels),)), labels)


def noisy_images() -> Samples:
    """The digits with wrong labels, as pictures with one channel."""
    pixels, labels = noisy_digits()
    return pixels.reshape(-1, 1, 8, 8), labels


def _table(load: Callable[..., tuple[object, object]], kind: torch.dtype) -> Samples:
    columns, answers = load(return_X_y=True)
    inputs = torch.tensor(columns, dtype=torch.float32)
    return (inputs - inputs.mean(0)) / inputs.std(0), torch.tensor(answers, dtype=kind)


def cancer() -> Samples:
    """569 tumours, 30 measures each, benign or not."""
    return _table(datasets.load_breast_cancer, torch.int64)


def wine() -> Samples:
    """178 wines, 13 measures each, of three growers."""
    return _table(datasets.load_wine, torch.int64)


def diabetes() -> Samples:
    """442 patients, 10 measures each, and how far the illness went within a year (standardised)."""
    inputs, progress = _table(datasets.load_diabetes, torch.float32)
    return inputs, ((progress - progress.mean()) / progress.std()).unsqueeze(1)


def _text(module: ModuleType, characters: int) -> Tensor:
    raw = inspect.getsource(module)[:characters]
    return torch.tensor([min(ord(letter), 127) for letter in raw])


def characters_of(module: ModuleType, characters: int, length: int) -> Samples:
    """Pieces of a module's source, and the same pieces one character on."""
    text = _text(module, characters)
    starts = range(0, len(text) - length - 1, length)
    inputs = torch.stack([text[i : i + length] for i in starts])
    return inputs, torch.stack([text[i + 1 : i + length + 1] for i in starts])


def argparse_text() -> Samples:
    """The first 40,000 characters of `argparse`, in pieces of 32."""
    return characters_of(argparse, 40_000, 32)


def typing_text() -> Samples:
    """The first 40,000 characters of `typing`, in pieces of 32."""
    return characters_of(typing, 40_000, 32)


def mail_text() -> Samples:
    """The first 30,000 characters of `email.message`, in pieces of 32."""
    return characters_of(email.message, 30_000, 32)


def mail_pairs() -> Samples:
    """Each character of `email.message`, as one of 128, and the next one."""
    inputs, targets = characters_of(email.message, 30_000, 1)
    return one_hot(inputs[:, 0], 128).float(), targets[:, 0]


def word_pairs() -> Samples:
    """How often two words of `typing` stand within four words of each other (log of 1 + count)."""
    words = re.findall(r"[A-Za-z_]+", inspect.getsource(typing))
    known = {word: i for i, (word, _) in enumerate(Counter(words).most_common(200))}
    near: Counter[tuple[int, int]] = Counter()
    for at, word in enumerate(words):
        for other in words[at + 1 : at + 5]:
            if word in known and other in known:
                near[known[word], known[other]] += 1
    pairs = sorted(near)
    counts = torch.tensor([[near[pair]] for pair in pairs], dtype=torch.float32)
    return torch.tensor(pairs), counts.log1p()


def pixel_pairs() -> Samples:
    """300 digits as a table to be factorised: (digit, pixel) and its value."""
    pixels, _ = digits()
    table = pixels[:300]
    pairs = torch.cartesian_prod(torch.arange(300), torch.arange(64))
    return pairs, table.reshape(-1, 1)
