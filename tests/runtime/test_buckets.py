"""Gradients in flat buckets, handed over while the backward pass runs."""

import pytest
import torch
from torch import nn

from muster.runtime.step.buckets import FIRST, LIMIT, Buckets, GradientSlot, lay_out


def blocks(*sizes: int, dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    return [nn.Parameter(torch.zeros(size, dtype=dtype)) for size in sizes]


def test_a_small_first_bucket_then_larger_ones() -> None:
    # 4 bytes each. The first bucket takes FIRST bytes at most, those after it LIMIT.
    first, later = FIRST // 4, LIMIT // 4
    slots = lay_out(blocks(first - 10, 10, 1, later - 1, 1), range(5))
    assert [(s.bucket, s.begin, s.end) for s in slots] == [
        (0, 0, first - 10),
        (0, first - 10, first),
        (1, 0, 1),
        (1, 1, later),
        (2, 0, 1),
    ]


def test_a_bucket_holds_one_type() -> None:
    parameters = blocks(3) + blocks(2, dtype=torch.float64) + blocks(4)
    slots = lay_out(parameters, [2, 1, 0])
    assert slots == (GradientSlot(2, 0, 0, 4), GradientSlot(1, 1, 0, 2), GradientSlot(0, 2, 0, 3))


def model_and_buckets() -> tuple[nn.Sequential, Buckets]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4).double(), nn.Linear(4, 2))
    model[1].float()
    parameters = list(model.parameters())
    return model, Buckets(parameters, list(reversed(range(len(parameters)))))


def test_gradients_lie_in_the_flats_and_come_back_summed() -> None:
    model, buckets = model_and_buckets()
    put: list[int] = []
    buckets.begin(put.append)
    model(torch.ones(2, 3)).sum().backward()
    wanted = [p.grad.clone() for p in buckets.parameters]
    assert put == [0]  # handed over by the last hook, before finish
    buckets.finish()
    assert put == [0]
    for flat in buckets.host:
        flat *= 3  # two others with the same gradients
    buckets.spread([])
    for parameter, grad in zip(buckets.parameters, wanted, strict=True):
        assert torch.equal(parameter.grad, 3 * grad)


def test_unused_parameters_are_zero_in_the_sum_and_none_afterwards() -> None:
    model, buckets = model_and_buckets()
    put: list[int] = []
    buckets.begin(put.append)
    model[2](torch.ones(2, 4)).sum().backward()
    assert put == []
    buckets.host[0].fill_(5.0)
    kept = model[2].weight.grad.clone()
    buckets.begin(put.append)
    model[2](torch.ones(2, 4)).sum().backward()
    buckets.finish()
    assert put == [0]
    assert buckets.used.tolist() == [0, 0, 0, 0, 1, 1]
    buckets.spread([0, 1, 2, 3])
    assert [p.grad is None for p in buckets.parameters] == [True] * 4 + [False] * 2
    assert torch.equal(model[2].weight.grad, kept)


def test_one_without_samples_adds_nothing() -> None:
    _, buckets = model_and_buckets()
    put: list[int] = []
    buckets.begin(put.append)
    buckets.host[0].fill_(5.0)
    buckets.withhold()
    assert put == [0]
    assert buckets.used.tolist() == [0.0] * 6
    assert not buckets.host[0].any()


def test_the_checksum_tells_models_apart() -> None:
    sums = {Buckets(blocks(*sizes), [1, 0]).checksum for sizes in ((3, 4), (4, 3), (7, 1))}
    assert len(sums) == 3
    assert Buckets(blocks(3, 4), [1, 0]).checksum == Buckets(blocks(3, 4), [1, 0]).checksum


@pytest.mark.parametrize("twice", [False, True])
def test_a_second_backward_pass_is_not_handed_over(twice: bool) -> None:
    model, buckets = model_and_buckets()
    put: list[int] = []
    buckets.begin(put.append)
    for _ in range(2 if twice else 1):
        model(torch.ones(2, 3)).sum().backward()
    buckets.finish()
    assert put == [0]
