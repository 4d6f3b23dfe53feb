"""Batches of a dataset, loaded ahead of time."""

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from muster.runtime.data.loader import Loader
from muster.runtime.errors import BadTrainingError

Made = Callable[..., Loader]


class Squares(Dataset[Any]):
    """Sample i is (i, i^2); records what is read, and by which threads."""

    def __init__(self, bad: int = -1) -> None:
        self.bad = bad
        self.read: list[int] = []
        self.threads: set[int] = set()

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        self.read.append(i)
        self.threads.add(threading.get_ident())
        if i == self.bad:
            raise OSError("the disk is gone")
        return torch.tensor([float(i)]), i * i


class Together(Squares):
    """The same for many at once."""

    asked = 0

    def __getitems__(self, ids: list[int]) -> list[Any]:
        self.asked += 1
        if self.bad in ids:
            raise OSError("one of them is bad")
        return [(torch.tensor([float(i)]), i * i) for i in ids]


class Noise(Dataset[Any]):
    """Samples out of the three generators that transforms use."""

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.tensor([torch.rand(()).item(), random.random(), numpy.random.rand()])


@pytest.fixture
def made() -> Iterator[Made]:
    loaders: list[Loader] = []

    def make(*args: Any, **options: Any) -> Loader:
        loaders.append(Loader(*args, **options))
        return loaders[-1]

    yield make
    for loader in loaders:
        loader.close()


def test_a_batch_is_what_torchs_own_loader_would_make(made: Made) -> None:
    x, y = made(Squares()).load(torch.tensor([3, 1]))
    assert x.tolist() == [[3.0], [1.0]]
    assert y.tolist() == [9, 1]


def test_samples_expected_are_read_once(made: Made) -> None:
    data = Squares()
    loader = made(data)
    loader.expect(torch.tensor([5, 6, 7]))
    assert loader.load(torch.tensor([5, 6, 7]))[1].tolist() == [25, 36, 49]
    assert sorted(data.read) == [5, 6, 7]


def test_when_the_cut_has_changed_only_the_rest_is_read(made: Made) -> None:
    data = Squares()
    loader = made(data)
    loader.expect([5, 6, 7])
    assert loader.load([6, 7, 8, 9])[1].tolist() == [36, 49, 64, 81]
    assert sorted(data.read) == [5, 6, 7, 8, 9]


def test_a_lost_step_does_not_throw_the_next_ones_samples_away(made: Made) -> None:
    data = Squares()
    loader = made(data)
    loader.load([1, 2])
    loader.expect([5, 6])
    loader.load([1, 2, 3, 4])
    assert loader.load([5, 6])[1].tolist() == [25, 36]
    assert sorted(data.read) == [1, 1, 2, 2, 3, 4, 5, 6]


def test_one_thread_alone_uses_the_dataset(made: Made) -> None:
    data = Squares()
    loader = made(data)
    for first in range(0, 40, 4):
        loader.expect(range(first, first + 4))
        loader.load(range(first + 2, first + 6))
    assert len(data.threads) == 1


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_any_number_of_threads_loads_the_same(made: Made, threads: int) -> None:
    loader = made(Squares(), threads=threads)
    loader.expect(range(10))
    assert loader.load(range(10))[1].tolist() == [i * i for i in range(10)]


def test_a_dataset_that_reads_many_at_once_is_asked_once(made: Made) -> None:
    data = Together()
    assert made(data).load([1, 2, 3])[1].tolist() == [1, 4, 9]
    assert data.asked == 1
    assert data.read == []


@pytest.mark.parametrize("kind", [Squares, Together])
@pytest.mark.parametrize("ahead", [True, False])
def test_a_bad_sample_is_named_when_it_is_loaded(made: Made, kind: type[Squares], ahead: bool) -> None:
    loader = made(kind(bad=6))
    if ahead:
        loader.expect([5, 6, 7])
    with pytest.raises(BadTrainingError, match=r"sample 6 of the dataset.*OSError: the disk is gone"):
        loader.load([5, 6, 7])
    assert loader.load([5, 7])[1].tolist() == [25, 49]


def test_a_bad_sample_that_nobody_asks_for_is_no_error(made: Made) -> None:
    loader = made(Squares(bad=6))
    loader.expect([5, 6])
    assert loader.load([5])[1].tolist() == [25]


def test_samples_that_do_not_fit_together_are_named(made: Made) -> None:
    ragged = [torch.zeros(i) for i in range(4)]
    with pytest.raises(BadTrainingError, match=r"samples 1, 2 .*`collate`"):
        made(ragged).load([1, 2])


def test_the_users_collate_makes_the_batch(made: Made) -> None:
    assert made([1, 2, 3], collate=sum).load([0, 2]) == 4


def test_tensors_are_selected_as_torchs_loader_would(made: Made) -> None:
    x, y = torch.arange(12.0).reshape(6, 2), torch.arange(6)
    loader = made(TensorDataset(x, y))
    for ahead in ([4, 0], [1, 2]):
        loader.expect(ahead)
        got = loader.load(torch.tensor([4, 0]))
        assert got[0].tolist() == [[8.0, 9.0], [0.0, 1.0]]
        assert got[1].tolist() == [4, 0]


def test_augmentation_depends_on_epoch_and_sample_alone(made: Made) -> None:
    alone = made(Noise(), seed=3, augment=True).load([8], epoch=1)
    others = made(Noise(), seed=3, augment=True)
    others.expect([8])
    torch.rand(5)
    assert torch.equal(others.load([2, 8, 4], epoch=1)[1], alone[0])
    assert not torch.equal(others.load([8], epoch=2), alone)
    assert not torch.equal(made(Noise(), seed=4, augment=True).load([8], epoch=1), alone)


def test_augmentation_leaves_the_generators_of_the_training_alone(made: Made) -> None:
    torch.manual_seed(1)
    random.seed(1)
    expected = torch.rand(3).tolist(), random.random()
    torch.manual_seed(1)
    random.seed(1)
    made(Noise(), augment=True).load([1, 2])
    assert (torch.rand(3).tolist(), random.random()) == expected


def test_a_closed_loader_leaves_no_thread() -> None:
    before = threading.active_count()
    loader = Loader(Squares(), threads=2)
    loader.expect(range(8))
    assert threading.active_count() > before
    loader.close()
    assert threading.active_count() == before
