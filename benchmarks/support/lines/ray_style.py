"""The same with Ray Train's elastic training, on a Ray cluster.

A change of workers restarts all of them from the last reported checkpoint; what was trained since is
trained again. Samples follow the number of workers: those of a change are repeated or left out.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


def train(asked: dict[str, Any]) -> None:
    torch.manual_seed(0)
    labels = torch.randint(4, (asked["samples"],))
    images = torch.randn(asked["samples"], 1, 16, 16) + labels.reshape(-1, 1, 1, 1) / 4
    dataset = TensorDataset(images, labels)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    first = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder) / "state.pt", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    workers = ray.train.get_context().get_world_size()
    loader = prepare_data_loader(DataLoader(dataset, batch_size=256 // workers, shuffle=True))
    parallel = prepare_model(model)
    for epoch in range(first, 3):
        if workers > 1:
            loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = cross_entropy(parallel(x), y)
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as name:
            kept = None
            if ray.train.get_context().get_world_rank() == 0:
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epoch": epoch,
                }
                torch.save(state, Path(name) / "state.pt")
                kept = Checkpoint.from_directory(name)
            ray.train.report({"loss": loss.item()}, checkpoint=kept)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=8192)
    asked = parser.parse_args()
    trainer = TorchTrainer(
        train,
        train_loop_config={"samples": asked.samples},
        scaling_config=ScalingConfig(num_workers=(1, 3), elastic_resize_monitor_interval_s=30),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    )
    print(f"final loss {trainer.fit().metrics['loss']:.4f}")


if __name__ == "__main__":
    main()
