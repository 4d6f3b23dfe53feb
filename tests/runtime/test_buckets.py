"""Gradients in flat buckets, handed over while the backward pass runs."""

import mmap
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from muster.runtime.errors import BadTrainingError
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
    with buckets.differentiating():
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
    with buckets.differentiating():
        model[2](torch.ones(2, 4)).sum().backward()
    assert put == []
    kept = model[2].weight.grad.clone()
    buckets.host[0].fill_(5.0)
    buckets.begin(put.append)
    with buckets.differentiating():
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


def test_a_plain_backward_pass_is_refused_by_the_name_of_what_it_reached() -> None:
    model, buckets = model_and_buckets()
    model(torch.ones(2, 3)).sum().backward()  # before the first step: nobody's business
    buckets.begin(print)
    with pytest.raises(BadTrainingError, match=r"a plain \.backward\(\) reached 5"):
        model(torch.ones(2, 3)).sum().backward()


def test_micro_batches_add_up_and_are_handed_over_with_the_last() -> None:
    model, buckets = model_and_buckets()
    rows = torch.randn(6, 3)
    model(rows).sum().backward()
    wanted = [p.grad for p in buckets.parameters]
    put: list[int] = []
    buckets.begin(put.append)
    for first in (0, 2, 4):
        assert put == []
        with buckets.differentiating(last=first == 4):
            model(rows[first : first + 2]).sum().backward()
    buckets.finish()
    assert put == [0]
    buckets.spread([])
    for parameter, grad in zip(buckets.parameters, wanted, strict=True):
        assert torch.allclose(parameter.grad, grad)


def test_a_parameter_of_an_earlier_micro_batch_alone_is_not_forgotten() -> None:
    model, buckets = model_and_buckets()
    buckets.begin(lambda _: None)
    with buckets.differentiating(last=False):
        model(torch.ones(2, 3)).sum().backward()
    wanted = model[0].weight.grad.clone()
    with buckets.differentiating():
        model[2](torch.ones(2, 4)).sum().backward()
    buckets.finish()
    assert buckets.used.tolist() == [1.0] * 6
    buckets.spread([])
    assert torch.equal(model[0].weight.grad, wanted)


@pytest.mark.parametrize("alone", [True, False])
def test_a_second_sum_adds_to_the_gradients(alone: bool) -> None:
    model, buckets = model_and_buckets()
    put = None if alone else lambda _: None
    grads = []
    for keep in (False, True):
        buckets.begin(put, keep=keep)
        with buckets.differentiating():
            model(torch.ones(2, 3)).sum().backward()
        grads.append(model[0].weight.grad.clone())
        if alone:
            buckets.settle()
        else:
            buckets.finish()
            buckets.spread([])
    assert torch.allclose(model[0].weight.grad, grads[0] + grads[1])


def two_models() -> tuple[nn.Linear, nn.Linear, Buckets]:
    torch.manual_seed(0)
    one, two = nn.Linear(3, 3), nn.Linear(3, 1)
    names = ["weight", "bias", "model2:weight", "model2:bias"]
    return one, two, Buckets([*one.parameters(), *two.parameters()], [3, 2, 1, 0], names)


@pytest.mark.parametrize("whole", [True, False])
def test_only_the_chosen_parameters_are_summed(whole: bool) -> None:
    one, two, buckets = two_models()
    assert [slot.bucket for slot in buckets.slots] == [0, 0, 1, 1]
    put: list[int] = []
    buckets.begin(put.append)
    with buckets.differentiating():
        two(one(torch.ones(2, 3))).sum().backward()
    buckets.finish()
    buckets.spread([])
    kept = one.weight.grad.clone()
    put.clear()
    buckets.begin(put.append, chosen=[2, 3], keep=True, whole=whole)
    with buckets.differentiating():
        two(one(torch.ones(2, 3))).sum().backward(inputs=list(two.parameters()))
    buckets.finish()
    for bucket in put:
        buckets.host[bucket] *= 10  # nothing of it may reach the other model
    buckets.spread([0, 1])
    assert put == ([0, 1] if whole else [0])
    assert torch.equal(one.weight.grad, kept)


def test_a_gradient_that_comes_in_two_parts_tears_the_sum_once() -> None:
    """As with reentrant checkpointing of a shared block, whose hook fires once for each use."""
    shared, last = nn.Linear(3, 3), nn.Linear(3, 3)

    def losses() -> Tensor:
        out = last(torch.ones(2, 3))
        for _ in range(2):
            out = checkpoint(shared, out, use_reentrant=True)
        return out.sum()

    losses().backward()
    wanted = shared.weight.grad.clone()
    shared.zero_grad()
    buckets, torn = small(shared, last), []
    for _ in range(2):
        put: list[int] = []
        buckets.begin(put.append)
        with buckets.differentiating():
            losses().backward()
        torn.append(buckets.torn)
        buckets.finish()
    buckets.spread([])
    assert torn == [True, False]
    assert torch.allclose(shared.weight.grad, wanted)


def small(shared: nn.Linear, last: nn.Linear) -> Buckets:
    """Buckets of a model each: the shared one's is complete after the first of its uses."""
    names = ["weight", "bias", "model2:weight", "model2:bias"]
    return Buckets([shared.weight, shared.bias, last.weight, last.bias], [0, 1, 2, 3], names)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def test_one_worker_lends_its_buckets_out_until_others_come() -> None:
    model = nn.Linear(4096, 4096, bias=False)  # 67 MB
    x, size = torch.ones(1, 4096), 4 * 4096**2
    buckets = Buckets(list(model.parameters()), [0])
    before = resident()
    buckets.begin(None)
    lent = resident()
    assert before - lent > 0.9 * size
    with buckets.differentiating():
        model(x).sum().backward()
    buckets.settle()
    alone = model.weight.grad.clone()
    buckets.ready_for_others()
    buckets.begin(lambda _: None)
    with buckets.differentiating():
        model(x).sum().backward()
    buckets.finish()
    buckets.spread([])
    assert torch.equal(model.weight.grad, alone)
