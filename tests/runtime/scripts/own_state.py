"""Trainings in float64 with state of their own: averages, schedules, scalers, odd optimisers."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import (
    ExponentialLR,
    LambdaLR,
    LinearLR,
    ReduceLROnPlateau,
    SequentialLR,
)
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.runtime.scripts import features, tasks
from tests.runtime.scripts.features import Made, errors, net, samples


class Average:
    """Someone's own moving average, with a decay that warms up."""

    def __init__(self, model: nn.Module) -> None:
        self._model, self._count = model, 0
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self) -> None:
        """Follow the model."""
        self._count += 1
        decay = min(0.9, self._count / (self._count + 10))
        for name, p in self._model.named_parameters():
            self.shadow[name].lerp_(p.detach(), 1 - decay)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self._count, "shadow": self.shadow}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._count = state["count"]
        for name, tensor in state["shadow"].items():
            self.shadow[name].copy_(tensor)


def stepping(
    model: nn.Module, optimizer: Any, after: Callable[[Any], None], before: Any = None
) -> Callable[[Any, Any], None]:
    """Return a step with something of one's own after it, and before it."""

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        if before is not None:
            before(ctx)
        optimizer.zero_grad()
        ctx.backward(errors(model(x), y))
        optimizer.step()
        after(ctx)

    return step


def average() -> Made:
    """A moving average of one's own, and torch's, kept by name."""
    model = net(8, 16, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    mine, other = Average(model), AveragedModel(model)

    def after(ctx: Any) -> None:
        if ctx.applied:
            mine.update()
            other.update_parameters(model)

    found = {f"mine.{name}": tensor for name, tensor in mine.shadow.items()}
    found |= {f"other.{name}": tensor for name, tensor in other.state_dict().items()}
    step = stepping(model, optimizer, after)
    return Made([(model, optimizer)], samples(), step, found, keep={"mine": mine, "other": other})


def schedules() -> Made:
    """Three schedules that nobody was told of: one within another, and one after `wrap` or before."""
    model = net(8, 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    warm, cool = LinearLR(optimizer, 0.1, total_iters=20), ExponentialLR(optimizer, 0.99)
    schedule = SequentialLR(optimizer, [warm, cool], [20])
    step = stepping(model, optimizer, lambda _: schedule.step())
    return Made([(model, optimizer)], samples(), step)


def late_schedule() -> Made:
    """A schedule that is made in the first step, after `wrap`, and kept by the optimiser alone."""
    model = net(8, 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = LambdaLR(optimizer, lambda step: 1 / (1 + step / 50))
    step = stepping(model, optimizer, lambda _: schedule.step())
    return Made([(model, optimizer)], samples(), step)


def by_hand(top: bool) -> Made:
    """A rate that the loop itself multiplies, before its step or after it."""
    model = net(8, 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def cool(_: Any) -> None:
        for group in optimizer.param_groups:
            group["lr"] *= 0.99

    if top:
        return Made([(model, optimizer)], samples(), stepping(model, optimizer, lambda _: None, cool))
    return Made([(model, optimizer)], samples(), stepping(model, optimizer, cool))


def gan_by_hand() -> Made:
    """Two models in turns; the loop multiplies their rates, before a sum and before an update."""
    g, d = net(4, 16, 8), net(8, 16, 1)
    opt_g = torch.optim.SGD(g.parameters(), lr=0.05, momentum=0.9)
    opt_d = torch.optim.SGD(d.parameters(), lr=0.05, momentum=0.9)

    def step(ctx: Any, batch: Any) -> None:
        real, z = batch
        fake = g(z)
        opt_d.zero_grad()
        opt_d.param_groups[0]["lr"] *= 0.99
        ctx.backward(
            (d(real) - 1).square().mean(1) + d(fake.detach()).square().mean(1), optimizer=opt_d
        )
        opt_d.step()
        opt_g.zero_grad()
        ctx.backward((d(fake) - 1).square().mean(1), optimizer=opt_g)
        opt_g.param_groups[0]["lr"] *= 0.995
        opt_g.step()

    data = TensorDataset(torch.randn(tasks.COUNT, 8), torch.randn(tasks.COUNT, 4))
    rates = {
        "rate_g": lambda: torch.tensor(opt_g.param_groups[0]["lr"]),
        "rate_d": lambda: torch.tensor(opt_d.param_groups[0]["lr"]),
    }
    return Made([(g, opt_g), (d, opt_d)], data, step, told=rates)


def plateau() -> Made:
    """A schedule that looks at a number, at the top of the loop."""
    model = net(8, 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = ReduceLROnPlateau(optimizer, factor=0.95, patience=3)
    # The same on every worker, and never better: the rate falls every fourth call.
    step = stepping(model, optimizer, lambda _: None, before=lambda ctx: schedule.step(1.0))
    return Made([(model, optimizer)], samples(), step, keep={"plateau": schedule})


def scaler() -> Made:
    """A scaler that grows every few steps."""
    model = net(8, 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    scaling = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=5)

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        optimizer.zero_grad()
        ctx.backward(errors(model(x), y), scaler=scaling)
        scaling.step(optimizer)
        scaling.update()
        scale.fill_(scaling.get_scale())

    scale = torch.zeros(())
    return Made([(model, optimizer)], samples(), step, {"scale": scale}, keep={"scaler": scaling})


def scaled_average() -> Made:
    """A scaler that finds overflows, and an average that counts every step, as the docs have it."""
    model = net(8, 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    scaling = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=5)
    mine = Average(model)

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        optimizer.zero_grad()
        each = errors(model(x), y)
        ctx.backward(torch.where(x[:, 0] > 1.9, each * float("inf"), each), scaler=scaling)
        scaling.step(optimizer)
        scaling.update()
        if ctx.applied:
            mine.update()

    keep = {"mine": mine, "scaler": scaling}
    return Made([(model, optimizer)], samples(), step, mine.shadow, keep=keep)


class Listed(torch.optim.Optimizer):
    """State as Shampoo and SOAP have it: lists of tensors of other shapes, None, a count of its own."""

    def __init__(self, parameters: Any, lr: float = 0.02) -> None:
        super().__init__(parameters, {"lr": lr})
        self.count = 0
        self.slow = torch.zeros(())

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        self.count += 1
        self.slow.add_(0.01 * (1 - self.slow))
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group["lr"])

    def _update(self, p: Tensor, lr: float) -> None:
        state = self.state[p]
        if not state:
            state["factors"] = [torch.zeros(n, n) if n < 12 else None for n in p.shape]
            state["shape"] = tuple(p.shape)
        grad = p.grad
        assert grad is not None
        for dim, factor in enumerate(state["factors"]):
            if factor is not None:
                turned = grad.transpose(0, dim).reshape(p.shape[dim], -1)
                factor.lerp_(turned @ turned.T, 0.1)
                grad = grad / (1 + factor.trace())
        p.add_(grad, alpha=-lr * (1 + self.slow.item()) / (1 + self.count / 100))


def listed() -> Made:
    """An optimiser whose state is in lists, with attributes of its own."""
    model = net(8, 16, 1)
    optimizer = Listed(model.parameters())
    return Made([(model, optimizer)], samples(), stepping(model, optimizer, lambda _: None))


class Counting(nn.Module):
    """A model that depends on how often it was called, by an attribute, a buffer and extra state."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls, self.hidden = net(8, 16, 1), 0, [0]
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and not x.is_meta:
            self.calls += 1
        return self.inner(x) * (1 + 1 / (1 + self.calls) + 1 / (1 + self.hidden[0]))

    def get_extra_state(self) -> dict[str, int]:
        return {"hidden": self.hidden[0]}

    def set_extra_state(self, state: dict[str, int]) -> None:
        self.hidden[0] = state["hidden"]


def counting() -> Made:
    """Counters in a module."""
    model = Counting()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def after(ctx: Any) -> None:
        if ctx.applied:
            model.hidden[0] += 1
            model.seen += 1

    made = Made([(model, optimizer)], samples(), stepping(model, optimizer, after))
    model.calls = 0
    return made


class Adapted(nn.Module):
    """A large frozen layer with a small one beside it, and a large buffer (as with LoRA)."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(8, 16384).requires_grad_(False)
        self.down, self.up = nn.Linear(8, 2), nn.Linear(2, 16384)
        self.register_buffer("mix", torch.randn(16384, 1) / 100)
        self.teacher = nn.Linear(8, 2048).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return (self.wide(x) + self.up(self.down(x))) @ self.mix + self.teacher(x).mean(1, keepdim=True)


def frozen() -> Made:
    """Frozen weights that each worker draws by itself, and a teacher that follows by `.data`."""
    model = Adapted()
    optimizer = torch.optim.Adam([*model.down.parameters(), *model.up.parameters()], lr=0.001)

    def after(ctx: Any) -> None:
        if ctx.applied:
            model.teacher.weight.data.mul_(0.99)

    return Made([(model, optimizer)], samples(), stepping(model, optimizer, after))


OWN: dict[str, Callable[[], Made]] = {
    "average": average,
    "schedules": schedules,
    "late_schedule": late_schedule,
    "by_hand_before": lambda: by_hand(top=True),
    "by_hand_after": lambda: by_hand(top=False),
    "gan_by_hand": gan_by_hand,
    "plateau": plateau,
    "scaler": scaler,
    "scaled_average": scaled_average,
    "listed": listed,
    "counting": counting,
    "frozen": frozen,
}
features.FEATURES.update(OWN)

if __name__ == "__main__":
    features.main()
