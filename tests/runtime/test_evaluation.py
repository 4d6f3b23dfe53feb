"""An evaluation divided among workers: each sample once, whoever is lost meanwhile."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from muster.runtime.errors import BadTrainingError
from muster.runtime.user.evaluation import Evaluated, Evaluation, _gaps, _part, evaluating
from muster.runtime.user.together import means_of

CPU = torch.device("cpu")


class Numbers(TensorDataset):
    """Samples that are their own number."""

    def __init__(self, count: int) -> None:
        super().__init__(torch.arange(count, dtype=torch.float64))


@given(st.data())
def test_survivors_do_what_a_lost_worker_had_and_nothing_twice(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 60))
    alive = data.draw(st.integers(1, 5))
    done: list[list[tuple[int, int, None]]] = [[] for _ in range(alive)]
    seen = [0] * count
    while True:
        known = sorted(each for part in done for each in part)
        missing = _gaps(list(known), count)
        if not missing:
            break
        shares = data.draw(st.lists(st.integers(0, 4), min_size=alive, max_size=alive).filter(any))
        for rank in range(alive):
            done[rank] += [(first, last, None) for first, last in _part(missing, shares, rank)]
        if alive > 1 and data.draw(st.booleans()):  # one is lost, with what it has done
            alive -= 1
            done.pop(data.draw(st.integers(0, alive)))
    for first, last, _ in (each for part in done for each in part):
        for sample in range(first, last):
            seen[sample] += 1
    assert seen == [1] * count


def run(evaluation: Evaluation, shares: Sequence[int] = (1,)) -> dict[str, float]:
    found = means_of(evaluation.run(lambda mine: [mine], lambda: (shares, 0)))
    evaluation.close()
    return found


def test_a_mean_counts_every_sample_once() -> None:
    data = Evaluated.of(Numbers(10), 3, None)
    assert run(Evaluation([nn.Identity()], data, lambda _, x: x, CPU)) == {"": 4.5}


def test_sums_with_weights_of_their_own() -> None:
    def metric(_: Any, x: torch.Tensor) -> Any:
        return {"even": (x[x % 2 == 0].sum(), (x % 2 == 0).sum()), "all": x}

    data = Evaluated.of(Numbers(7), 2, None)
    assert run(Evaluation([nn.Identity()], data, metric, CPU)) == {"even": 3.0, "all": 3.0}


def test_every_module_gets_its_own_mode_back() -> None:
    model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2))
    model[1].eval()
    with pytest.raises(KeyError), evaluating([model]):
        assert not model[0].training and not torch.is_grad_enabled()
        raise KeyError
    assert (model.training, model[0].training, model[1].training) == (True, True, False)
    assert torch.is_grad_enabled()


def test_a_data_loader_is_taken_apart() -> None:
    found = Evaluated.of(DataLoader(Numbers(4), batch_size=2), None, None)
    assert (len(found.dataset), found.batch) == (4, 2)


class Stream(IterableDataset[int]):
    """No length, no samples by number."""

    def __iter__(self) -> Iterator[int]:
        return iter(())


@pytest.mark.parametrize(
    ("data", "batch", "says"),
    [
        (Numbers(3), None, "batch=None: give the samples that a worker takes at once"),
        (Stream(), 4, "cannot divide a Stream among the workers"),
    ],
)
def test_what_cannot_be_evaluated_says_what_to_give(data: Any, batch: int | None, says: str) -> None:
    with pytest.raises(BadTrainingError, match=says):
        Evaluated.of(data, batch, None)


def test_a_mean_where_a_number_per_sample_is_wanted() -> None:
    data = Evaluated.of(Numbers(4), 2, None)
    evaluation = Evaluation([nn.Identity()], data, lambda _, x: x.mean(), CPU)
    with pytest.raises(BadTrainingError, match="return one number for each of them"):
        run(evaluation)
    evaluation.close()
