"""Observes one step of a model: operations by kind of layer, bytes kept, readiness of gradients."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

Forward = Callable[[Any, Any], Any]
"""(model, batch) -> one loss per sample."""

CONVOLUTION, POINTWISE, DENSE = "convolution", "pointwise", "dense"
RECURRENT, ATTENTION, OTHER = "recurrent", "attention", "other"
"""Kinds of layers, as in the planner's profiles."""

_aten: Any = torch.ops.aten
_fused_attention: Any = _aten._scaled_dot_product_flash_attention_for_cpu


@dataclass(frozen=True, slots=True)
class Step:
    """What one forward pass, and perhaps a backward pass, showed."""

    operations: dict[str, int]
    """FLOP of the forward pass by kind of layer, for the whole batch."""
    kept: int
    """Bytes kept for the backward pass, without parameters."""
    ready: tuple[tuple[str, int], ...]
    """Parameters in the order their gradients became ready, and the backward FLOP until then."""
    backward: int
    """FLOP of the backward pass."""


def watch(model: nn.Module, forward: Forward, batch: Any, *, backward: bool) -> tuple[Step, Any]:
    """Run one step; return what it showed and the shape of the losses. Has a step's side effects."""
    counter, keeper = _Operations(), _Kept(model)
    with counter, _recurrent(model, counter), keeper.hooks(), _whole_attention():
        losses = forward(model, batch)
    shape, done = losses.shape, Counter(counter.kinds)
    ready: list[tuple[str, int]] = []
    if backward:
        named = dict(model.named_parameters())
        _check_leaves(losses, named)
        counter.kinds.clear()
        with _ready(named, lambda name: ready.append((name, counter.total))), counter:
            losses.sum().backward()
    return Step(dict(done), keeper.bytes, tuple(ready), counter.total if backward else 0), shape


class _Operations(TorchDispatchMode):
    """Adds up FLOP by kind of layer; a multiply-add counts as two, only matrix products count."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: Counter[str] = Counter()
        self.inside = 0
        """Depth of recurrent layers: matrix products inside belong to them."""

    @property
    def total(self) -> int:
        return self.kinds.total()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = func._overloadpacket
        formula = _FORMULAS.get(packet) or flop_registry.get(packet)
        if formula is not None:
            kind = RECURRENT if self.inside else _kind(packet, args)
            self.kinds[kind] += int(formula(*args, **kwargs, out_val=out))
        return out


def _kind(packet: Any, args: Any) -> str:
    """Return the kind of layer an operation belongs to."""
    name = packet.__name__
    if "rnn" in name:
        return RECURRENT
    if "attention" in name:
        return ATTENTION
    if "convolution" in name or "conv2d" in name:
        weight = args[2] if "backward" in name else args[1]
        # A kernel of one row or column is computed as a matrix product.
        return CONVOLUTION if min(weight.shape[2:], default=1) > 1 else POINTWISE
    if name in ("bmm", "baddbmm"):
        # A matrix per sample is attention; one matrix broadcast over the batch is a dense layer.
        matrices = [each for each in args if isinstance(each, Tensor)][-2:]
        return DENSE if any(each.stride(0) == 0 for each in matrices) else ATTENTION
    return DENSE if name in ("mm", "addmm", "_scaled_mm") else OTHER


def _rnn_operations(x: Tensor, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
    """2 x rows x elements of the layer's weight matrices (the gates' products, input and state)."""
    rows = x.numel() // x.shape[-1]
    lists = [args[0]] if isinstance(args[0], (list, tuple)) else [args[:2]]
    return 2 * rows * sum(w.numel() for each in lists for w in each if w.dim() == 2)


def _rnn_backward(x: Tensor, *args: Any, out_val: Any = None, **kwargs: Any) -> int:
    """Each product once for weights and once for inputs."""
    return 2 * _rnn_operations(x, *args)


def _attention_operations(
    query: Any, key: Any, value: Any, *args: Any, out_val: Any = None, **kw: Any
) -> int:
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))


def _attention_backward(
    grad: Any, q: Any, k: Any, v: Any, *args: Any, out_val: Any = None, **kw: Any
) -> int:
    return int(sdpa_backward_flop_count(grad.shape, q.shape, k.shape, v.shape))


_FORMULAS: dict[Any, Callable[..., int]] = {
    _fused_attention: _attention_operations,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    _aten.mkldnn_rnn_layer: _rnn_operations,
    _aten.mkldnn_rnn_layer_backward: _rnn_backward,
    _aten._cudnn_rnn: _rnn_operations,
    _aten._cudnn_rnn_backward: _rnn_backward,
}
"""Fused operations missing from torch's table."""


class _Kept:
    """Bytes that autograd keeps: each storage once, without parameters."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = {each.untyped_storage()._cdata for each in model.parameters()}
        self._storages: dict[int, Any] = {}

    @property
    def bytes(self) -> int:
        return sum(storage.nbytes() for storage in self._storages.values())

    def hooks(self) -> Any:
        return torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor)

    def _keep(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._parameters:
            self._storages[storage._cdata] = storage  # held, so that its id is not reused
        return tensor.detach()  # an output kept as is would hold its own graph


_attend = nn.functional.scaled_dot_product_attention


class _WholeAttention(TorchFunctionMode):
    """Fuses attention on meta tensors, as devices do: scores are not kept (Dao et al. 2022)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (_whole if func is _attend else func)(*args, **(kwargs or {}))


@contextmanager
def _whole_attention() -> Iterator[None]:
    """Patch the function too: no mode sees the call inside `multi_head_attention_forward`."""
    nn.functional.scaled_dot_product_attention = _whole
    try:
        with _WholeAttention():
            yield
    finally:
        nn.functional.scaled_dot_product_attention = _attend


def _whole(query: Tensor, *args: Any, **kwargs: Any) -> Any:
    fused = _fused(query, *args, **kwargs) if query.is_meta else None
    return _attend(query, *args, **kwargs) if fused is None else fused


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor | None:
    """Return the fused form, if torch has one for these arguments."""
    plain = query.dim() == 4 and query.shape[1] == key.shape[1] and not enable_gqa
    if not plain or dropout_p or (attn_mask is not None and attn_mask.requires_grad):
        return None
    return _fused_attention(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[0]


@contextmanager
def _recurrent(model: nn.Module, counter: _Operations) -> Iterator[None]:

    def enter(*_: Any) -> None:
        counter.inside += 1

    def leave(*_: Any) -> None:
        counter.inside -= 1

    layers = [each for each in model.modules() if isinstance(each, (nn.RNNBase, nn.RNNCellBase))]
    with ExitStack() as hooks:
        for each in layers:
            hooks.enter_context(each.register_forward_pre_hook(enter))
            hooks.enter_context(each.register_forward_hook(leave))
        yield


@contextmanager
def _ready(named: dict[str, Tensor], note: Callable[[str], None]) -> Iterator[None]:
    """Note each parameter's name when its gradient is ready."""
    with ExitStack() as hooks:
        for name, each in named.items():
            if each.requires_grad:
                hook = each.register_post_accumulate_grad_hook(lambda _, name=name: note(name))
                hooks.enter_context(hook)
        yield


def _check_leaves(losses: Tensor, named: dict[str, Tensor]) -> None:
    """Reject losses of other parameters: they belong to the user's own model."""
    ours = {id(each) for each in named.values()}
    seen, waiting = set(), [losses.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, nn.Parameter) and id(leaf) not in ours:
            raise ValueError("the losses come from a model other than the wrapped one")
        waiting += [parent for parent, _ in node.next_functions]


def tensors(batch: Any) -> list[Tensor]:
    """Return the tensors of a batch, in order."""
    found: list[Tensor] = []
    mapped(batch, found.append)
    return found


def mapped(batch: Any, change: Callable[[Tensor], Any]) -> Any:
    """Map the tensors of a batch, each once: tuples, lists, dictionaries."""
    done: dict[int, Any] = {}

    def visit(part: Any) -> Any:
        if isinstance(part, Tensor):
            if id(part) not in done:
                done[id(part)] = change(part)
            return done[id(part)]
        if isinstance(part, dict):
            return {key: visit(each) for key, each in part.items()}
        if isinstance(part, (tuple, list)):
            parts = [visit(each) for each in part]
            return type(part)(*parts) if hasattr(part, "_fields") else type(part)(parts)
        return part

    return visit(batch)
