"""Sentences to sort: random words, of which the first decides. No download, and a second to learn."""

import torch
from torch import Tensor
from torch.utils.data import Dataset

WORDS, LENGTH, CLASSES = 40, 10, 3


class Sentences(Dataset[dict[str, Tensor]]):
    """Each has some words, padded to one length, and a label."""

    def __init__(self, count: int) -> None:
        draw = torch.Generator().manual_seed(count)
        self._words = torch.randint(3, WORDS, (count, LENGTH), generator=draw)
        self._lengths = torch.randint(3, LENGTH + 1, (count,), generator=draw)

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        words, used = self._words[index], torch.arange(LENGTH) < self._lengths[index]
        return {"input_ids": words * used, "attention_mask": used.long(), "labels": words[0] % CLASSES}
