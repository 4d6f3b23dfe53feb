"""The captured shape of a training: meta against a real run, the ways back, what is left untouched."""

import json
import random
from dataclasses import asdict
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from muster.model.profile import LayerType
from muster.runtime.shape import capture as captures
from muster.runtime.shape import trace
from muster.runtime.shape.capture import Context, capture, order


def losses(model: Any, batch: Any) -> Any:
    """One for each sample."""
    x, y = batch
    return cross_entropy(model(x), y, reduction="none").reshape(len(x), -1).mean(1)


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 4, 1),
        nn.Flatten(),
        nn.Linear(4 * 6 * 6, 10),
    )


class Tied(nn.Module):
    """A transformer whose decoder is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return (self.block(self.words(tokens)) @ self.words.weight.t()).transpose(1, 2)


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layer = nn.Embedding(20, 12), nn.LSTM(12, 12, num_layers=2, batch_first=True)
        self.out = nn.Linear(12, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.layer(self.embed(tokens))[0]).transpose(1, 2)


def images(size: int = 2) -> tuple[Tensor, Tensor]:
    return torch.randn(size, 1, 6, 6), torch.randint(10, (size,))


def tokens(words: int, length: int = 7) -> tuple[Tensor, Tensor]:
    text = torch.randint(words, (2, length))
    return text, text


def shape(model: nn.Module, sample: Any, forward: Any = losses) -> Context:
    return capture(model, forward, sample, 100, 32)


def as_if_meta_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no meta today")

    monkeypatch.setattr(captures, "_on_meta", fail)


CASES: dict[str, Any] = {
    "cnn": (cnn, images),
    "transformer": (Tied, lambda: tokens(50)),
    "lstm": (Lstm, lambda: tokens(20)),
}


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # of torch's own switch for oneDNN
@pytest.mark.parametrize("name", CASES)
def test_without_numbers_it_is_as_with_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build, sample = CASES[name]
    model, batch = build(), sample()
    without = shape(model, batch)
    as_if_meta_failed(monkeypatch)
    # Without oneDNN's fused LSTM, which keeps a workspace of its own.
    with torch.backends.mkldnn.flags(enabled=False):
        numbers = shape(model, batch)
    assert (without.how, numbers.how) == ("meta", "tiny batch")
    assert numbers.why == "meta: RuntimeError: no meta today"
    assert without.operations == numbers.operations
    assert without.activations == numbers.activations
    assert without.kinds == numbers.kinds
    assert [layer(each) for each in order(without)] == [layer(each) for each in order(numbers)]
    assert name == "lstm" or without.parameters == numbers.parameters


def layer(name: str) -> str:
    """A parameter, or its layer: inside one layer of LSTM the order depends on the kernel."""
    return name[-3:] if name.endswith(("_l0", "_l1")) else name


def test_the_cnn_by_hand() -> None:
    found = shape(cnn(), images())
    # Operations for each sample, 36 pixels: 3x3 of 1 to 8 channels 2*36*9*8 = 5184; 1x1 of 8 to 4
    # 2*36*8*4 = 2304; dense 2*144*10 = 2880.
    assert found.operations == 5184 + 2304 + 2880
    shares = dict(found.kinds)
    assert shares == pytest.approx(
        {"convolution": 5184 / 10368, "pointwise": 2304 / 10368, "dense": 2880 / 10368}
    )
    # Kept, floats: the image 36, the first convolution's output 8*36 (for the norm), the activation's
    # output 8*36, the dense layer's input 144, the logarithms of ten probabilities; the label, 8 bytes.
    # What the norm keeps of each channel is the same for any batch.
    assert found.activations == 4 * (36 + 288 + 288 + 144 + 10) + 8
    assert dict(found.layers) == {"BatchNorm2d": 1, "Conv2d": 2, "Flatten": 1, "Linear": 1, "ReLU": 1}
    # Backward: dense 2*2880, then 1x1 2*2304, then 3x3 once (an image needs no gradient): 15552.
    ready = {each.name: each.ready for each in found.parameters}
    assert ready["5.weight"] == pytest.approx(5760 / 15552)
    assert ready["3.weight"] == pytest.approx((5760 + 4608) / 15552)
    assert ready["0.weight"] == 1.0
    weight = next(each for each in found.parameters if each.name == "3.weight")
    assert (weight.count, weight.bytes, weight.type) == (32, 128, "float32")
    assert (found.samples, found.sample_bytes) == (100, 32)


def test_gradients_in_the_order_a_backward_pass_has_them() -> None:
    model, seen = cnn(), []
    for name, each in model.named_parameters():
        each.register_post_accumulate_grad_hook(lambda _, name=name: seen.append(name))
    losses(model, images()).sum().backward()
    assert list(order(shape(model, images()))) == seen


def test_a_tied_weight_is_one_tensor_and_ready_last() -> None:
    found = shape(Tied(), tokens(50))
    names = order(found)
    assert names.count("words.weight") == 1
    assert names[-1] == "words.weight"


def test_the_lstm_counts_as_recurrent() -> None:
    found = shape(Lstm(), tokens(20))
    # Seven positions; two layers of four gates, 12 inputs and 12 states to 12: 2*7*2*4*12*24 FLOP.
    recurrent, dense = 2 * 7 * 2 * 4 * 12 * 24, 2 * 7 * 12 * 20
    assert found.operations == recurrent + dense
    assert dict(found.kinds) == pytest.approx(
        {"recurrent": recurrent / found.operations, "dense": dense / found.operations}
    )


def test_a_fused_lstm_does_the_same_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = Lstm(), tokens(20)
    without = shape(model, batch)
    as_if_meta_failed(monkeypatch)
    assert shape(model, batch).kinds == without.kinds
    assert shape(model, batch).operations == without.operations


def test_attention_keeps_no_scores() -> None:
    def attend(model: Any, batch: Any) -> Any:
        q = model(batch).unflatten(-1, (2, 4)).transpose(1, 2)
        return scaled_dot_product_attention(q, q, q).sum((1, 2, 3))

    def kept(length: int) -> int:
        return shape(nn.Linear(8, 8), torch.randn(2, length, 8), attend).activations

    # Inputs, output and one sum a row: linear in the length. Scores would make it quadratic.
    assert kept(64) == 2 * kept(32)


class Looks(nn.Module):
    """Looks at its numbers, and keeps statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(4), nn.Linear(4, 3)
        self.steps = 0

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        return self.out(self.norm(x)) if x.abs().sum().item() > 0 else self.out(x)


def numbers() -> tuple[Tensor, Tensor]:
    return torch.randn(2, 4), torch.tensor([0, 2])


def test_a_model_that_looks_at_its_numbers_gets_a_tiny_batch() -> None:
    found = shape(Looks(), numbers())
    assert found.how == "tiny batch"
    assert "item" in found.why
    assert found.operations == 2 * 4 * 3
    assert set(order(found)) == {"out.weight", "out.bias", "norm.weight", "norm.bias"}


class Uncopied(Looks):
    """Cannot be copied: holds something of the operating system."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("cannot pickle '_thread.lock' object")


@pytest.mark.parametrize("build", [cnn, Looks, Uncopied])
def test_the_model_is_left_as_it_was(build: Any) -> None:
    model = build()
    sample = images() if build is cnn else numbers()
    kept = next(model.parameters())
    kept.grad = torch.ones_like(kept)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    steps = vars(model).get("steps")
    state, python = torch.get_rng_state(), random.getstate()
    found = shape(model, sample)
    assert found.how == ("meta" if build is cnn else "tiny batch")
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(kept.grad, torch.ones_like(kept))
    assert [each.grad for each in model.parameters()][1:] == [None] * (
        len(list(model.parameters())) - 1
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == python
    if build is Looks:
        assert vars(model)["steps"] == steps
    # No hook is left: a step afterwards is as before.
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())
    assert not any(each._post_accumulate_grad_hooks for each in model.parameters())


def test_dropout_draws_the_same_numbers_afterwards() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 3))
    torch.manual_seed(5)
    expected = model(torch.ones(2, 4))
    sample = numbers()
    torch.manual_seed(5)
    shape(model, sample)
    assert torch.equal(model(torch.ones(2, 4)), expected)


def test_the_users_own_hooks_see_nothing() -> None:
    model, seen = cnn(), []
    model[0].register_forward_hook(lambda *_: seen.append("forward"))
    next(model.parameters()).register_post_accumulate_grad_hook(lambda _: seen.append("gradient"))
    assert shape(model, images()).how == "meta"
    assert seen == []
    model(images()[0])
    assert seen == ["forward"]


def test_what_cannot_be_run_is_told_from_its_parameters() -> None:
    def broken(model: Any, batch: Any) -> Any:
        raise OSError("no such file:\n weights.bin")

    found = shape(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3)), numbers(), broken)
    assert found.how == "parameters only"
    assert found.why == "; ".join(
        f"{way}: OSError: no such file: weights.bin" for way in ("meta", "tiny batch")
    )
    assert order(found) == ("1.bias", "1.weight", "0.bias", "0.weight")
    # A multiply-add for each of 4*8 + 8 + 8*3 + 3 parameters.
    assert found.operations == 2 * 67
    assert found.parameters[1].ready == pytest.approx(27 / 67)


def test_losses_of_another_model_change_nothing() -> None:
    model, other = nn.Linear(4, 3), nn.Linear(4, 3)
    found = shape(model, numbers(), lambda _, batch: losses(other, batch))
    assert found.how == "parameters only"
    assert "a model other than the wrapped one" in found.why
    assert other.weight.grad is None


def test_unused_parameters_come_last_and_frozen_ones_are_not_ordered() -> None:
    model = nn.ModuleDict({"a": nn.Linear(4, 3), "unused": nn.Linear(2, 2), "frozen": nn.Linear(4, 4)})
    model["frozen"].requires_grad_(False)
    found = shape(model, numbers(), lambda m, batch: losses(lambda x: m["a"](m["frozen"](x)), batch))
    assert order(found) == ("a.bias", "a.weight", "unused.weight", "unused.bias")
    assert {p.name: p.ready for p in found.parameters if p.name.startswith("frozen")} == {
        "frozen.weight": 0.0,
        "frozen.bias": 0.0,
    }


def test_an_embedding_alone_has_no_operations_but_an_order() -> None:
    model = nn.ModuleDict({"rows": nn.Embedding(9, 4), "columns": nn.Embedding(7, 4)})

    def product(m: Any, batch: Any) -> Any:
        return (m["rows"](batch["row"]) * m["columns"](batch["column"])).sum(1)

    sample = {"row": torch.tensor([1, 2]), "column": torch.tensor([3, 3])}
    found = shape(model, sample, product)
    assert (found.how, found.operations, found.kinds) == ("meta", 0.0, ())
    assert sorted(each.ready for each in found.parameters) == [0.5, 1.0]


def test_a_weight_made_before_each_step_is_captured() -> None:
    # Spectral norm keeps a result, which copying refuses, and changes a buffer at each step.
    model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), nn.Linear(4, 3))
    model.aside = model[1].weight * 2
    assert shape(model, numbers()).how == "meta"


class Recomputed(nn.Module):
    """Keeps only the input of its wide part, which is computed again in the backward pass."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        self.wide = nn.Sequential(nn.Linear(4, 100), nn.ReLU(), nn.Linear(100, 4))
        self.out, self.again = nn.Linear(4, 3), again

    def forward(self, x: Tensor) -> Tensor:
        y = checkpoint(self.wide, x, use_reentrant=False) if self.again else self.wide(x)
        return self.out(y)


def test_what_is_computed_again_is_not_kept_and_comes_late() -> None:
    usual, again = (shape(Recomputed(each), numbers()) for each in (False, True))
    assert (again.how, again.operations) == ("meta", usual.operations)
    # The activation's 100 numbers, kept by both layers around it, are not.
    assert usual.activations - again.activations == 4 * 100
    # A backward pass of 2*24 for the last layer and 2*800 + 800 for the wide part (its input needs no
    # gradient): 2448. Computed again are 800 more: torch stops before the wide part's second layer,
    # whose output nobody has kept.
    late = [
        {each.name: each.ready for each in found.parameters}["out.weight"] for found in (usual, again)
    ]
    assert late == pytest.approx([48 / 2448, 48 / 3248])


def test_it_goes_through_json() -> None:
    found = asdict(shape(Tied(), tokens(50)))
    again = json.loads(json.dumps(found))
    assert [each["name"] for each in again["parameters"]] == [
        each["name"] for each in found["parameters"]
    ]
    assert dict(again["layers"]) == dict(found["layers"])
    assert dict(again["kinds"]) == dict(found["kinds"])


def test_kinds_are_the_planners_words() -> None:
    kinds = {
        trace.CONVOLUTION,
        trace.POINTWISE,
        trace.DENSE,
        trace.RECURRENT,
        trace.ATTENTION,
        trace.OTHER,
    }
    assert kinds <= set(LayerType)


def test_twice_the_same() -> None:
    batch = tokens(50)
    assert shape(Tied(), batch) == shape(Tied(), batch)
