"""The same training as Ray Train's elastic training: it restarts from the last reported checkpoint."""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parents[2]))
from support.peers.models import Marks, losses, make, threads_from_environment


def train(config: dict[str, Any]) -> None:
    """One worker: load where there is something to load, train, report."""
    threads_from_environment()
    context = ray.train.get_context()
    rank, size = context.get_world_rank(), context.get_world_size()
    name, optimizer, data = make(config["model"])
    step = load(name, optimizer)
    model = DistributedDataParallel(name)
    marks = Marks(config["out"], f"rank-{rank}-{os.getpid()}")
    batch, share = config["batch"], config["batch"] // size
    while step < config["steps"]:
        first = (step * batch + rank * share) % (len(data) - share)
        optimizer.zero_grad()
        losses(model, *data[first : first + share]).mean().backward()
        optimizer.step()
        step += 1
        marks.mark(step, size, share)
        if step % config["every"] == 0:
            report(rank, step, name, optimizer)


def load(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Return the step of the last reported checkpoint; 0 without one."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        found = torch.load(Path(folder) / "state.pt", weights_only=True)
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    return int(found["step"])


def report(rank: int, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Report progress, the first worker with a checkpoint."""
    if rank != 0:
        ray.train.report({"step": step})
        return
    with tempfile.TemporaryDirectory() as folder:
        state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, Path(folder) / "state.pt")
        ray.train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))


def main() -> None:
    """Run on a Ray cluster until the steps are done or the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--model", default="wide")
    parser.add_argument("--batch", type=int, default=12, help="of all workers together")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=20, help="steps between two checkpoints")
    parser.add_argument("--look", type=float, default=5.0, help="s between two looks for new nodes")
    parser.add_argument("--least", type=int, default=1)
    parser.add_argument("--most", type=int, default=3)
    parser.add_argument("--out", required=True, help="folder of the marks")
    options = parser.parse_args()
    ray.init(options.address, log_to_driver=True)
    config = {name: getattr(options, name) for name in ("model", "batch", "steps", "every", "out")}
    trainer = TorchTrainer(
        train,
        train_loop_config=config,
        torch_config=TorchConfig(backend="gloo", timeout_s=120),
        scaling_config=ScalingConfig(
            num_workers=(options.least, options.most),
            use_gpu=True,
            resources_per_worker={"CPU": 1, "GPU": 1},
            elastic_resize_monitor_interval_s=options.look,
        ),
        run_config=RunConfig(
            name="peer",
            storage_path=f"{options.out}/storage",
            failure_config=FailureConfig(max_failures=100),
        ),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
