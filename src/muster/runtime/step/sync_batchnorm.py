"""SyncBatchNorm over the workers of a step, whatever their shares: the statistics of the whole batch.

Each worker's count, mean and sum of squared deviations are merged in the order of ranks (Chan et al.,
1979), so that large means cost no digits. torch's own needs a process group of its own and GPUs.
"""

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from muster.runtime.step.exchange import RowExchange

_EXCHANGES: "WeakKeyDictionary[nn.Module, RowExchange]" = WeakKeyDictionary()
"""By layer; copies of a model (averages, captures) have none and use their own batch."""


class ElasticSyncBatchNorm(nn.SyncBatchNorm):
    """`nn.SyncBatchNorm` for workers that come and go."""

    @torch.compiler.disable
    def forward(self, input: Tensor) -> Tensor:
        """Normalise by the statistics of all workers' samples."""
        exchange = _EXCHANGES.get(self)
        learns = self.training or self.running_mean is None
        if exchange is None or not learns or not exchange.active:
            return _BatchNorm.forward(self, input)
        self._check_input_dim(input)
        count, mean, squares = merged(exchange.rows(_statistics(input, exchange.counts)))
        if self.training and self.track_running_stats:
            self._track(count, mean, squares)
        scale = (squares / count + self.eps).rsqrt()
        kind = torch.float32 if input.dtype in (torch.float16, torch.bfloat16) else input.dtype
        given = (mean.to(kind), scale.to(kind), self.weight, self.bias, float(count), exchange)
        out: Tensor = _Normalise.apply(input, *given)
        return out

    @torch.no_grad()
    def _track(self, count: Tensor, mean: Tensor, squares: Tensor) -> None:
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        part = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), part)
        self.running_var.lerp_((squares / (count - 1).clamp(min=1)).to(self.running_var.dtype), part)


def convert(model: nn.Module) -> bool:
    """Turn a model's `nn.SyncBatchNorm` layers into elastic ones; return whether there are any."""
    found = [m for m in model.modules() if isinstance(m, nn.SyncBatchNorm)]
    for module in found:
        module.__class__ = ElasticSyncBatchNorm
    return bool(found)


def connect(model: nn.Module, exchange: RowExchange) -> None:
    """Let a model's layers exchange their statistics."""
    for module in model.modules():
        if isinstance(module, ElasticSyncBatchNorm):
            _EXCHANGES[module] = exchange


def least_share(models: list[Any]) -> int:
    """Return the samples a worker needs, if it gets any: BatchNorm cannot learn from one."""
    local = (
        isinstance(m, _BatchNorm) and not isinstance(m, nn.SyncBatchNorm)
        for model in models
        for m in model.modules()
    )
    return 2 if any(local) else 1


def _statistics(input: Tensor, counts: bool) -> Tensor:
    """Return count, mean and sum of squared deviations by channel (float64); zeros for a stand-in."""
    with torch.no_grad():
        by_channel = input.detach().transpose(0, 1).flatten(1).double()
        mean = by_channel.mean(1)
        squares = (by_channel - mean[:, None]).square().sum(1)
        found = torch.stack([torch.full_like(mean, by_channel.shape[1]), mean, squares])
        return found if counts else torch.zeros_like(found)


def merged(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Merge workers' counts, means and sums of squared deviations, by channel."""
    count, mean, squares = rows[0]
    for more, other, deviations in rows[1:]:
        total = (count + more).clamp(min=1)
        delta = other - mean
        mean = mean + delta * more / total
        squares = squares + deviations + delta.square() * count * more / total
        count = count + more
    return count[0], mean, squares


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        mean: Tensor,
        scale: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        count: float,
        exchange: RowExchange,
    ) -> Tensor:
        shape = [1, -1, *[1] * (input.dim() - 2)]
        normal = (input.to(mean.dtype) - mean.view(shape)) * scale.view(shape)
        ctx.save_for_backward(normal, scale, weight)
        ctx.count, ctx.exchange, ctx.shape, ctx.kind = count, exchange, shape, input.dtype
        if weight is not None and bias is not None:
            normal = normal * weight.view(shape) + bias.view(shape)
        return normal.to(input.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """dx = w s (dy - mean(dy) - x' mean(dy x')), with means over all workers' samples."""
        normal, scale, weight = ctx.saved_tensors
        shape, over = ctx.shape, [0, *range(2, grad.dim())]
        grad = grad.to(normal.dtype)
        sums = torch.stack([grad.sum(over), (grad * normal).sum(over)])
        one, other = ctx.exchange.rows(sums).sum(0) / ctx.count
        back = grad - one.view(shape) - normal * other.view(shape)
        back = back * (scale if weight is None else scale * weight).view(shape)
        if not ctx.exchange.counts:
            back = torch.zeros_like(back)
        learnt = (None, None) if weight is None else (sums[1], sums[0])
        return back.to(ctx.kind), None, None, *learnt, None, None
