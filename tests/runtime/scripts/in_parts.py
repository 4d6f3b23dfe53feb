"""A transformer in float64 whose parameters are in parts; and the same training in plain torch."""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from muster.runtime.comm.ring import Ring
from muster.runtime.data.samples import Order, Position
from muster.runtime.errors import BrokenGroupError

COUNT, BATCH, WORDS, WIDTH = 50, 12, 13, 16
"""The last batch of an epoch has two samples: fewer than there are workers."""
CLIP = 0.5


class Net(nn.Module):
    """Three blocks between an embedding and a head that share their weights; nothing divides by 3."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 2, 27, 0.0, "gelu", batch_first=True) for _ in range(3)
        )
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.embed.weight.T


def make(kind: str = "AdamW") -> tuple[nn.Module, Any, Any, TensorDataset]:
    """Model, optimiser with two groups, schedule and data."""
    torch.manual_seed(5)
    model = Net().double()
    plain = [p for n, p in model.named_parameters() if n.endswith("bias")]
    rest = [p for n, p in model.named_parameters() if not n.endswith("bias")]
    groups = [{"params": rest, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    # The gradient of a key's bias is zero but for rounding: Adam would make a number of it.
    options = {"eps": 1e-4} if kind.startswith("Adam") else {}
    optimizer = getattr(torch.optim, kind)(groups, lr=0.01, **options)
    x = torch.randint(0, WORDS, (COUNT, 5))
    return model, optimizer, ExponentialLR(optimizer, 0.99), TensorDataset(x, x.roll(-1, 1))


def losses(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """One for each sample."""
    return functional.cross_entropy(model(x).transpose(1, 2), y, reduction="none").mean(1)


def plain(steps: int, kind: str = "AdamW", means: dict[int, float] | None = None) -> dict[str, Tensor]:
    """The parameters after the same training in one process, without Muster.

    `means`: takes the mean loss over the data after each step.
    """
    torch.set_num_threads(1)  # such small tensors are slow on two, and ten times so on a busy machine
    model, optimizer, schedule, data = make(kind)
    order, position = Order(COUNT, BATCH, seed=0), Position()
    while position.step < steps:
        optimizer.zero_grad()
        losses(model, *data[order.ids(position)]).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        schedule.step()
        position = order.after(position)
        if means is not None:
            with torch.no_grad():
                means[position.step] = float(losses(model.eval(), *data[:]).mean())
            model.train()
    return model.state_dict()


def kept_bytes(model: nn.Module, optimizer: Any) -> int:
    """Bytes of the tensors that a worker keeps between two steps."""
    states = [v for state in optimizer.state.values() for v in state.values()]
    found = [*model.parameters(), *states]
    return sum(t.numel() * t.element_size() for t in found if isinstance(t, Tensor))


def die_before_voting(step: int, saved: Path) -> None:
    """Die in a step when all have their sums, but no ballots, and there is a checkpoint."""
    put, calls = Ring.put, iter(range(1, 1_000_000))

    def dying(ring: Ring, bucket: int) -> None:
        if next(calls) == step:
            while not any(saved.glob("step-*.pt")):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        put(ring, bucket)

    Ring.put = dying  # type: ignore[method-assign, assignment]


def dying(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The losses; worker-1 dies of them."""
    found = losses(model, x, y)
    if os.environ.get("MUSTER_TASK") == "worker-1":
        os.kill(os.getpid(), signal.SIGKILL)
    return found


def lose_ballots(step: int) -> None:
    """Let one step's ballots fail here, once all have summed them: the others count the step."""
    finish, calls = Ring.finish, iter(range(1, 1_000_000))

    def failing(ring: Ring) -> Any:
        found = finish(ring)
        if next(calls) == step:
            raise BrokenGroupError("the connection broke just after the ballots were sent")
        return found

    Ring.finish = failing  # type: ignore[method-assign, assignment]


def note_mean(ctx: Any, data: TensorDataset, path: str) -> None:
    """Write the mean loss after a step that counts, with its number and the workers."""
    mean = ctx.evaluate(data, batch=4, metric=losses)
    if ctx.applied:
        with Path(path).open("a") as file:
            print(json.dumps([ctx.step + 1, mean, ctx.workers]), file=file)


def told() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    parser.add_argument("--release")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--checkpoint")
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--micro", type=int)
    parser.add_argument("--evaluate", action="store_true", help="after each step")
    parser.add_argument("--kind", default="AdamW")
    parser.add_argument("--whole", action="store_true", help="not in parts")
    parser.add_argument("--no-mirror", action="store_true")
    parser.add_argument("--wrong-clip", action="store_true")
    parser.add_argument("--unsure", type=int, help="a step whose ballots worker-1 does not get")
    parser.add_argument("--dies", type=int, help="a step in which worker-1 dies before its ballot")
    parser.add_argument("--dies-after", action="store_true", help="worker-1, evaluating at the end")
    return parser.parse_args()


def main() -> None:
    """Train as told; the whole model is written at the end, what each worker keeps at each step."""
    options = told()
    model, optimizer, schedule, data = make(options.kind)
    ctx = muster.init()
    if options.unsure and ctx.settings.task == "worker-1":
        lose_ballots(options.unsure)
    if options.dies and ctx.settings.task == "worker-1":
        die_before_voting(options.dies, Path(options.checkpoint))
    ctx.wrap(model, optimizer, schedule, shard=not options.whole, mirror=not options.no_mirror)
    ctx.data(data, BATCH, steps=options.steps, micro_batch=options.micro)
    ctx.export(options.out)
    if options.checkpoint:
        ctx.checkpoint(options.checkpoint, every=options.every)
    sizes = Path(f"{options.out}.{ctx.settings.task}.sizes")
    for x, y in ctx.steps():
        if not Path(options.release).exists():
            time.sleep(options.pace)
        optimizer.zero_grad()
        for part in ctx.parts((x, y)):
            ctx.backward(losses(model, *part))
        if options.wrong_clip:
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        else:
            ctx.clip(CLIP)
        optimizer.step()
        schedule.step()
        with sizes.open("a") as file:
            print(json.dumps([ctx.workers, kept_bytes(model, optimizer)]), file=file)
        if options.evaluate:
            note_mean(ctx, data, f"{options.out}.{ctx.settings.task}.means")
    if options.evaluate:
        mean = ctx.evaluate(data, batch=4, metric=dying if options.dies_after else losses)
        Path(f"{options.out}.{ctx.settings.task}.mean").write_text(json.dumps(mean))
    if options.whole and ctx.primary:
        torch.save(model.state_dict(), options.out)


if __name__ == "__main__":
    main()
