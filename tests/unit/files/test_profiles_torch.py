"""Shipped profiles against PyTorch itself: the same networks, built here, without numbers in them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from muster.files import shipped_profile
from muster.model.profile import ModelProfile

# Any, not a typed import: the checks run where torch is not installed too.
torch: Any = pytest.importorskip("torch")
flop_counter: Any = pytest.importorskip("torch.utils.flop_counter")
nn = torch.nn


@dataclass
class Recorder:
    """Applies modules under their names; notes parameters, and gradients as they become ready."""

    parameters: dict[str, int] = field(default_factory=dict)
    ready: list[str] = field(default_factory=list)
    storages: set[int] = field(default_factory=set)

    def __call__(self, name: str, module: Any, x: Any) -> Any:
        for part, weight in module.named_parameters():
            self.watch(f"{name}.{part}", weight)
        return module(x)

    def watch(self, name: str, weight: Any) -> None:
        """Note a parameter, and when its gradient is there."""
        self.parameters[name] = weight.numel()
        self.storages.add(weight.untyped_storage()._cdata)
        weight.register_post_accumulate_grad_hook(lambda _: self.ready.append(name))


@dataclass(frozen=True)
class Measured:
    """What one step of a network shows."""

    parameters: dict[str, int]
    ready: list[str]
    operations: int
    kept: int
    """Bytes that autograd keeps of what is not a parameter."""


def resnet50(net: Recorder, x: Any) -> Any:
    """ResNet-50 as torchvision builds it."""

    def unit(name: str, norm: str, x: Any, out: int, kernel: int, stride: int = 1) -> Any:
        x = net(name, nn.Conv2d(x.shape[1], out, kernel, stride, kernel // 2, bias=False), x)
        return net(norm, nn.BatchNorm2d(out), x)

    def block(name: str, x: Any, channels: int, stride: int) -> Any:
        y = unit(f"{name}.conv1", f"{name}.bn1", x, channels, 1).relu_()
        y = unit(f"{name}.conv2", f"{name}.bn2", y, channels, 3, stride).relu_()
        y = unit(f"{name}.conv3", f"{name}.bn3", y, 4 * channels, 1)
        if x.shape != y.shape:
            x = unit(f"{name}.downsample.0", f"{name}.downsample.1", x, 4 * channels, 1, stride)
        y += x
        return y.relu_()

    x = unit("conv1", "bn1", x, 64, 7, 2).relu_()
    x = nn.functional.max_pool2d(x, 3, 2, 1)
    for stage, count in enumerate((3, 4, 6, 3)):
        for each in range(count):
            x = block(f"layer{stage + 1}.{each}", x, 64 << stage, 2 if stage and not each else 1)
    return net("fc", nn.Linear(2048, 1000), x.mean((2, 3)))


def vgg16(net: Recorder, x: Any) -> Any:
    """VGG16 as torchvision builds it."""
    place = 0
    for channels, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            x = net(f"features.{place}", nn.Conv2d(x.shape[1], channels, 3, padding=1), x).relu_()
            place += 2
        x = nn.functional.max_pool2d(x, 2)
        place += 1
    x = x.flatten(1)
    for place in (0, 3):
        x = net(f"classifier.{place}", nn.Linear(x.shape[1], 4096), x).relu_()
        x = nn.functional.dropout(x)
    return net("classifier.6", nn.Linear(4096, 1000), x)


def lstm6(net: Recorder, tokens: Any) -> Any:
    """The word language model, one module for each layer of LSTM."""
    x = net("encoder", nn.Embedding(10_000, 1500), tokens)
    for layer in range(6):
        x, _ = net(f"rnns.{layer}", nn.LSTM(1500, 1500, batch_first=True), x)
    return net("decoder", nn.Linear(1500, 10_000), x).log_softmax(-1)


def gpt2(net: Recorder, tokens: Any) -> Any:
    """GPT-2 small, its decoder tied to the embedding."""
    length, width, heads = tokens.shape[1], 768, 12
    embedding = nn.Embedding(50_257, width)
    x = net("wte", embedding, tokens) + net("wpe", nn.Embedding(length, width), tokens)
    for layer in range(12):
        name = f"h.{layer}"
        y = net(f"{name}.ln_1", nn.LayerNorm(width), x)
        y = net(f"{name}.attn.c_attn", nn.Linear(width, 3 * width), y)
        parts = [part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in y.split(width, dim=-1)]
        y = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + net(f"{name}.attn.c_proj", nn.Linear(width, width), y.transpose(1, 2).flatten(2))
        y = net(f"{name}.ln_2", nn.LayerNorm(width), x)
        y = nn.functional.gelu(net(f"{name}.mlp.c_fc", nn.Linear(width, 4 * width), y))
        x = x + net(f"{name}.mlp.c_proj", nn.Linear(4 * width, width), y)
    x = net("ln_f", nn.LayerNorm(width), x)
    return (x @ embedding.weight.t()).log_softmax(-1)


NETWORKS: dict[str, tuple[Callable[[Recorder, Any], Any], tuple[int, ...]]] = {
    "resnet50": (resnet50, (1, 3, 224, 224)),
    "vgg16": (vgg16, (1, 3, 224, 224)),
    "lstm6": (lstm6, (1, 35)),
    "gpt2-small": (gpt2, (1, 1024)),
}


@cache
def measured(name: str) -> Measured:
    """One step on the meta device: shapes without numbers."""
    build, shape = NETWORKS[name]
    net, counter = Recorder(), flop_counter.FlopCounterMode(display=False)
    kept: dict[int, int] = {}

    def keep(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage._cdata not in net.storages:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    with torch.device("meta"):
        x = torch.empty(shape, dtype=torch.float32 if len(shape) == 4 else torch.long)
        with counter, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            y = build(net, x)
        operations = counter.get_total_flops()
        y.sum().backward()
    return Measured(net.parameters, net.ready, operations, sum(kept.values()))


@pytest.fixture(scope="module", params=sorted(NETWORKS))
def pair(request: pytest.FixtureRequest) -> tuple[ModelProfile, Measured]:
    """A shipped profile, and what PyTorch shows of the same network."""
    return shipped_profile(request.param), measured(request.param)


def test_every_tensor_has_its_name_and_size(pair: tuple[ModelProfile, Measured]) -> None:
    profile, shown = pair
    assert {t.name: t.bytes // profile.parameter_bytes for t in profile.tensors} == shown.parameters


def test_gradients_become_ready_in_the_order_of_the_file(pair: tuple[ModelProfile, Measured]) -> None:
    profile, shown = pair
    assert [_group(t.name) for t in profile.tensors] == [_group(name) for name in shown.ready]


def test_forward_operations_agree(pair: tuple[ModelProfile, Measured]) -> None:
    profile, shown = pair
    assert profile.operations == pytest.approx(shown.operations, rel=0.02)


def _group(name: str) -> str:
    """A tensor, or its layer: inside one layer of LSTM the order depends on the kernel."""
    return name.rpartition(".")[0] if name.startswith("rnns.") else name


@pytest.mark.parametrize("name", ["resnet50", "vgg16"])
def test_kept_activations_agree(name: str) -> None:
    """Where no kernel decides: what LSTM and attention keep depends on whether they are fused."""
    assert shipped_profile(name).activations == pytest.approx(measured(name).kept, rel=0.02)
