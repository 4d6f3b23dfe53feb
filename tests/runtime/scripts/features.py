"""Everyday trainings in float64, elastic with Muster or plain in one process: see FEATURES."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[3]))

import itertools

import muster
from muster.runtime.data.samples import Order, Position
from tests.runtime.scripts import tasks

elastic = False
"""Whether Muster trains."""


class Plain:
    """What a session is to a loop, in one process without Muster."""

    def __init__(self, steps: int, batch: int = tasks.BATCH) -> None:
        self._steps, self._batch = steps, batch
        self.step = self.first = self.total = self.share = 0
        self.applied = True

    def batches(self, data: TensorDataset) -> Iterator[Any]:
        """Yield the whole batch of each step."""
        order, position = Order(len(data), self._batch, seed=0), Position()
        while position.step < self._steps:
            self.step, ids = position.step, order.ids(position)
            self.total = self.share = len(ids)
            yield data[ids]
            position = order.after(position)

    def backward(
        self, losses: Tensor, weight: Any = None, optimizer: Any = None, scaler: Any = None
    ) -> None:
        """Compute the gradients of the mean."""
        total = float(weight.sum()) if isinstance(weight, Tensor) else weight or self.total
        mean = losses.sum() / total
        inputs = None
        if optimizer is not None:
            inputs = [p for group in optimizer.param_groups for p in group["params"]]
        (mean if scaler is None else scaler.scale(mean)).backward(inputs=inputs)

    def skip(self) -> None:
        """Leave out the update: there are no gradients."""

    def parts(self, batch: Any) -> Iterator[Any]:
        """Yield the whole batch."""
        yield batch

    def gather(self, rows: Tensor) -> Tensor:
        """Return the rows of all workers: there is one."""
        return rows

    def unfreeze(self, module: nn.Module) -> None:
        """Train the rest, too."""
        module.requires_grad_(True)


@dataclass
class Made:
    """A training: its models, optimisers and data, and what a step does."""

    models: list[tuple[nn.Module, Any]]
    data: TensorDataset
    step: Callable[[Any, Any], None]
    loose: dict[str, Tensor] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    told: dict[str, Callable[[], Tensor]] = field(default_factory=dict)
    keep: dict[str, Any] = field(default_factory=dict)

    def result(self) -> dict[str, Tensor]:
        """Return all tensors by name."""
        found = {
            f"{i}.{name}": tensor
            for i, (model, _) in enumerate(self.models)
            for name, tensor in model.state_dict().items()
            if isinstance(tensor, Tensor)
        }
        found |= {**self.loose, **{name: tell() for name, tell in self.told.items()}}
        return {name: tensor.detach().clone() for name, tensor in found.items()}


def net(*sizes: int) -> nn.Sequential:
    """Return a small dense network of smooth functions."""
    layers: list[nn.Module] = []
    for one, other in itertools.pairwise(sizes):
        layers += [nn.Linear(one, other), nn.GELU()]
    return nn.Sequential(*layers[:-1])


def samples(*more: Tensor) -> TensorDataset:
    """Return inputs and targets, and further columns."""
    x = torch.randn(tasks.COUNT, 8)
    return TensorDataset(x, x.sin().sum(1, keepdim=True), *more)


def errors(out: Tensor, y: Tensor) -> Tensor:
    """Return a loss for each sample."""
    return functional.mse_loss(out, y, reduction="none").mean(1)


def gan() -> Made:
    """Two models in turns, with noise by sample; the second phase needs the first one's update."""
    g, d = net(4, 16, 8), net(8, 16, 1)
    opt_g, opt_d = torch.optim.Adam(g.parameters(), lr=0.01), torch.optim.Adam(d.parameters(), lr=0.01)

    def step(ctx: Any, batch: Any) -> None:
        real, z = batch
        opt_d.zero_grad()
        fake = g(z)
        ctx.backward((functional.softplus(-d(real)) + functional.softplus(d(fake.detach()))).mean(1))
        opt_d.step()
        opt_g.zero_grad()
        ctx.backward(functional.softplus(-d(fake)).mean(1), optimizer=opt_g)
        opt_g.step()

    data = TensorDataset(torch.randn(tasks.COUNT, 8), torch.randn(tasks.COUNT, 4))
    return Made([(g, opt_g), (d, opt_d)], data, step)


def two_optimizers() -> Made:
    """Two optimisers on one model: matrices by momentum, the rest by Adam; and a clip of both."""
    model = net(8, 16, 1)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    one = torch.optim.SGD(matrices, lr=0.02, momentum=0.9)
    two = torch.optim.AdamW(rest, lr=0.01)

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        one.zero_grad(), two.zero_grad()
        ctx.backward(errors(model(x), y))
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        one.step(), two.step()

    return Made([(model, [one, two])], samples(), step)


def loose() -> Made:
    """Learnt weights of two losses, which only the optimiser knows; a frozen teacher beside."""
    model, teacher = net(8, 16, 1), net(8, 4, 1).requires_grad_(False)
    weights = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.Adam([*model.parameters(), weights], lr=0.01)

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        optimizer.zero_grad()
        out = model(x)
        each = torch.stack([errors(out, y), errors(out, teacher(x))], 1)
        ctx.backward((each * (-weights).exp() + weights).sum(1))
        optimizer.step()

    return Made([(model, optimizer), (teacher, None)], samples(), step, {"weights": weights})


def two_losses() -> Made:
    """Two backward passes before one update."""
    model = net(8, 16, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        optimizer.zero_grad()
        ctx.backward(errors(model(x), y))
        ctx.backward(0.1 * errors(model(-x), -y))
        optimizer.step()

    return Made([(model, optimizer)], samples(), step)


def weighted() -> Made:
    """A mean over tokens, of which samples have different numbers; and class weights."""
    model = net(8, 16, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    weights = torch.tensor([0.3, 1.7, 0.9, 2.1, 0.11])
    tokens = torch.randint(1, 9, (tasks.COUNT,))
    labels = torch.randint(0, 5, (tasks.COUNT,))

    def step(ctx: Any, batch: Any) -> None:
        x, _, count, label = batch
        optimizer.zero_grad()
        of_class = weights.to(x.device)
        each = functional.cross_entropy(model(x), label, weight=of_class, reduction="none")
        ctx.backward(each * count, weight=of_class[label] * count)
        optimizer.step()

    return Made([(model, optimizer)], samples(tokens, labels), step)


def micro() -> Made:
    """Micro-batches of three, of shares of any size."""
    model = net(8, 16, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(ctx: Any, batch: Any) -> None:
        optimizer.zero_grad()
        for x, y in ctx.parts(batch):
            ctx.backward(errors(model(x), y))
        optimizer.step()

    return Made([(model, optimizer)], samples(), step, options={"micro_batch": 3})


class Shared(nn.Module):
    """A block that is used twice, each time with reentrant checkpointing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.block, self.last = nn.Linear(8, 8), net(8, 16, 8), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for _ in range(3):
            x = x + checkpoint(self.block, x, use_reentrant=True)
        return self.last(x)


def reentrant() -> Made:
    """Gradients of a shared block that come in parts."""
    model = Shared()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        optimizer.zero_grad()
        ctx.backward(errors(model(x), y))
        optimizer.step()

    return Made([(model, optimizer)], samples(), step)


def sync_batchnorm() -> Made:
    """SyncBatchNorm over one and two dimensions; its averages and counters count, too."""
    torch.manual_seed(7)
    model = nn.Sequential(
        nn.Linear(8, 12), nn.BatchNorm1d(12), nn.GELU(), nn.Unflatten(1, (3, 4)),
        nn.BatchNorm1d(3, momentum=None, affine=False), nn.Flatten(), nn.Linear(12, 1),
    )  # fmt: skip
    if elastic:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    # Not Adam: the gradient of a bias before a norm is 0, and it would divide noise by noise.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        optimizer.zero_grad()
        ctx.backward(errors(model(x + 3), y))
        optimizer.step()

    return Made([(model, optimizer)], samples(), step)


def contrastive() -> Made:
    """A loss over pairs of samples, of all workers together."""
    one, two = net(8, 16, 4), net(1, 16, 4)
    optimizer = torch.optim.Adam([*one.parameters(), *two.parameters()], lr=0.01)
    model = nn.ModuleList([one, two])

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        optimizer.zero_grad()
        a, b = functional.normalize(one(x)), functional.normalize(two(y))
        others, others_too = ctx.gather(b), ctx.gather(a)
        mine = ctx.first + torch.arange(len(a), device=a.device)
        there = functional.cross_entropy(5 * a @ others.T, mine, reduction="none")
        back = functional.cross_entropy(5 * b @ others_too.T, mine, reduction="none")
        ctx.backward(there + back)
        optimizer.step()

    return Made([(model, optimizer)], samples(), step)


def sparse() -> Made:
    """An embedding with sparse gradients and an optimiser that takes no others."""
    table, rest = nn.Embedding(40, 8, sparse=True), net(8, 16, 1)
    one, two = torch.optim.SparseAdam(table.parameters(), lr=0.01), torch.optim.Adam(rest.parameters())
    model = nn.Sequential(table, rest)
    words = torch.randint(0, 40, (tasks.COUNT,))

    def step(ctx: Any, batch: Any) -> None:
        _, y, word = batch
        one.zero_grad(), two.zero_grad()
        for w, target in ctx.parts((word, y)):
            ctx.backward(errors(model(w), target))
        one.step(), two.step()

    return Made([(model, [one, two])], samples(words), step, options={"micro_batch": 5})


def scaled() -> Made:
    """A GradScaler that grows, and finds overflows in one worker's samples."""
    model = net(8, 16, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=3)

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        optimizer.zero_grad()
        each = errors(model(x), y)
        ctx.backward(torch.where(x[:, 0] > 1.9, each * float("inf"), each), scaler=scaler)
        scaler.step(optimizer)
        scaler.update()

    scale = {"scale": lambda: torch.tensor(scaler.get_scale())}
    return Made([(model, optimizer)], samples(), step, told=scale)


def compiled() -> Made:
    """torch.compile meets shares of all sizes: three versions at most (the first, any, one sample)."""
    model = net(8, 16, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    versions: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        versions.append(graph)
        return graph.forward

    fast = torch.compile(model, backend=backend)

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        optimizer.zero_grad()
        ctx.backward(errors(fast(x), y))
        optimizer.step()
        assert len(versions) <= 3, f"compiled {len(versions)} times"

    return Made([(model, optimizer)], samples(), step)


def unfrozen() -> Made:
    """Parts of a model that are trained at times only: unfrozen, frozen, and a group added midway."""
    one, two, three = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 1)
    model = nn.Sequential(one, nn.GELU(), two, nn.GELU(), three)
    one.requires_grad_(False)
    two.requires_grad_(False)
    held = [*one.parameters(), *three.parameters()]
    optimizer = torch.optim.SGD(held, lr=0.02, momentum=0.9)

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        if ctx.step == 1:
            ctx.unfreeze(one)
        if ctx.step == 12:
            two.requires_grad_(True)
            optimizer.add_param_group({"params": list(two.parameters()), "lr": 0.005})
        if ctx.step % 20 == 19:
            one.requires_grad_(ctx.step % 40 == 39)
        optimizer.zero_grad()
        ctx.backward(errors(model(x), y))
        optimizer.step()

    return Made([(model, optimizer)], samples(), step)


def skipped() -> Made:
    """Updates left out: by one worker, which finds a bad sample; by all, after the sum."""
    model = net(8, 16, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        optimizer.zero_grad()
        bad = ctx.share and bool((x[:, 0] > 1.9).any())
        if bad:
            ctx.skip()
        else:
            ctx.backward(errors(model(x), y))
        if ctx.step % 5 == 3:
            ctx.skip()
            optimizer.zero_grad()
        optimizer.step()

    return Made([(model, optimizer)], samples(), step)


def clipped() -> Made:
    """A clip in the loop, which owners that update cannot do."""
    made = two_losses()
    model, optimizer = made.models[0]

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        optimizer.zero_grad()
        ctx.backward(errors(model(x), y))
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()

    return Made(made.models, made.data, step)


def uneven() -> Made:
    """One worker calls backward once more than the other."""
    made = two_losses()
    model, optimizer = made.models[0]

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        ctx.backward(errors(model(x), y))
        if os.environ["MUSTER_TASK"] == "worker-1" and ctx.step == 3:
            ctx.backward(errors(model(x), y))
        optimizer.step()

    return Made(made.models, made.data, step)


def strayed() -> Made:
    """One worker freezes what the other trains."""
    made = two_losses()
    model, optimizer = made.models[0]

    def step(ctx: Any, batch: Any) -> None:
        x, y = batch
        if os.environ["MUSTER_TASK"] == "worker-1" and ctx.step == 3:
            model[0].requires_grad_(False)
        ctx.backward(errors(model(x), y))
        optimizer.step()

    return Made(made.models, made.data, step)


REFUSED: dict[str, Callable[[], Made]] = {"clipped": clipped, "uneven": uneven, "strayed": strayed}

FEATURES: dict[str, Callable[[], Made]] = {
    "gan": gan,
    "two_optimizers": two_optimizers,
    "loose": loose,
    "two_losses": two_losses,
    "weighted": weighted,
    "micro": micro,
    "reentrant": reentrant,
    "sync_batchnorm": sync_batchnorm,
    "contrastive": contrastive,
    "skipped": skipped,
    "unfrozen": unfrozen,
    "compiled": compiled,
    "sparse": sparse,
    "scaled": scaled,
}


@contextmanager
def double() -> Iterator[None]:
    """Make float64 the default, and every start the same."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(7)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def plain(name: str, steps: int) -> dict[str, Tensor]:
    """Return what plain training in one process ends with."""
    with double():
        made = FEATURES[name]()
        ctx = Plain(steps)
        for batch in ctx.batches(made.data):
            made.step(ctx, batch)
        return made.result()


def main() -> None:
    """Train as told and write the final tensors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--feature", required=True)
    parser.add_argument("--epochs", type=int, default=100_000)
    parser.add_argument("--out", required=True)
    parser.add_argument("--release", required=True)
    parser.add_argument("--pace", type=float, default=0.0)
    options = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(7)
    global elastic
    elastic = True
    made = {**FEATURES, **REFUSED}[options.feature]()
    ctx = muster.init()
    for model, optimizer in made.models:
        ctx.wrap(model, optimizer)
    ctx.data(made.data, global_batch=tasks.BATCH, epochs=options.epochs, **made.options)
    ctx.keep(**made.keep)
    for batch in ctx.steps():
        if not Path(options.release).is_file():
            time.sleep(options.pace)
        made.step(ctx, batch)
    if ctx.primary:
        torch.save(made.result(), options.out)


if __name__ == "__main__":
    main()
