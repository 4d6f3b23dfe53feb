"""Different datasets on two workers are told apart, and random ones are not taken for different."""

import random
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch

from muster.runtime.data.fingerprint import Fingerprint, fingerprint

Item = Callable[[int], Any]


class Made:
    """A dataset of a function."""

    def __init__(self, item: Item, count: int = 50) -> None:
        self._item, self._count = item, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, i: int) -> Any:
        return self._item(i)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, these datasets are quick to read."""
    monkeypatch.setattr("muster.runtime.data.fingerprint.BUDGET", 60.0)


def picture(seed: int, noise: float = 0.0) -> Item:
    def item(i: int) -> Any:
        made = torch.randn(3, 32, 32, generator=torch.Generator().manual_seed(seed * 1000 + i))
        return made + noise, i % 10

    return item


def test_the_same_data_read_by_two_workers_are_the_same() -> None:
    assert not fingerprint(Made(picture(1))).differs(fingerprint(Made(picture(1))))


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (Made(picture(1)), Made(picture(1), 49), "49 samples instead of 50"),
        (Made(picture(1)), Made(picture(2)), "other contents of sample 0, 25 or 49"),
        (Made(lambda i: {"text": "a"}), Made(lambda i: {"text": "b"}), "other contents"),
        (Made(lambda i: numpy.arange(5) + i), Made(lambda i: numpy.arange(5) - i), "other contents"),
        (Made(lambda i: b"abc"), Made(lambda i: b"abd"), "other contents"),
        (Made(lambda i: (1.5, i)), Made(lambda i: (-2.5, i)), "other contents"),
        (Made(lambda i: torch.zeros(3)), Made(lambda i: torch.zeros(4)), "other contents"),
    ],
)
def test_other_data_are_told_apart(one: Made, other: Made, words: str) -> None:
    assert words in fingerprint(one).differs(fingerprint(other))


@pytest.mark.parametrize("place", ["/data/a/1.png", "/mnt/b/1.png"])
def test_files_may_lie_elsewhere(place: str) -> None:
    there = fingerprint(Made(lambda i: {"path": "/home/ada/1.png", "label": i}))
    assert not there.differs(fingerprint(Made(lambda i: {"path": place, "label": i})))


def test_last_bits_may_differ_between_machines() -> None:
    assert not fingerprint(Made(picture(1))).differs(fingerprint(Made(picture(1, noise=1e-6))))


@pytest.mark.parametrize(
    "draw",
    [lambda: torch.rand(8), random.random, lambda: numpy.random.rand(8)],
    ids=["torch", "random", "numpy"],
)
def test_an_augmentation_out_of_the_processs_generators_is_noticed_and_no_difference(draw: Any) -> None:
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed)
        found.append(fingerprint(Made(lambda i: draw())))
    assert all(one.random for one in found)
    assert not found[0].differs(found[1])


def test_an_augmentation_of_its_own_is_no_difference() -> None:
    for seed in range(20):
        mine, others = numpy.random.default_rng(seed), numpy.random.default_rng(seed + 100)
        one = fingerprint(Made(lambda i, own=mine: own.random() < 0.5))  # type: ignore[misc]
        other = fingerprint(Made(lambda i, own=others: own.random() < 0.5))  # type: ignore[misc]
        assert not one.differs(other)


def test_probing_leaves_the_generators_of_the_training_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    fingerprint(Made(lambda i: torch.rand(3)))
    assert torch.equal(torch.rand(2), expected)


def test_a_bad_sample_or_a_slow_one_leaves_the_length_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(i: int) -> Any:
        raise OSError("no")

    assert (fingerprint(Made(fail)).samples, fingerprint(Made(fail)).exact) == (50, 0)
    monkeypatch.setattr("muster.runtime.data.fingerprint.BUDGET", -1.0)
    assert fingerprint(Made(picture(1))).exact == 0
    assert not Fingerprint().differs(fingerprint(Made(picture(1))))
