"""The same with torchft: a lighthouse, and `torchrun --nproc-per-node 1 ...` for each worker.

Survivors keep their processes; a step during which a worker dies is discarded. Its sampler is
documented as lossy: what the dead worker was to see is seen by nobody, so the training is counted in
steps.
"""

import argparse
import os
from datetime import timedelta
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader  # type: ignore[import-not-found]
from torchft import (  # type: ignore[import-not-found]
    DistributedDataParallel,
    DistributedSampler,
    Manager,
    Optimizer,
    ProcessGroupGloo,
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=8192)
    asked = parser.parse_args()
    group, groups = int(os.environ["REPLICA_GROUP_ID"]), int(os.environ["NUM_REPLICA_GROUPS"])
    torch.manual_seed(0)
    labels = torch.randint(4, (asked.samples,))
    images = torch.randn(asked.samples, 1, 16, 16) + labels.reshape(-1, 1, 1, 1) / 4
    dataset = TensorDataset(images, labels)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def load_state_dict(state: dict[str, Any]) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    def state_dict() -> dict[str, Any]:
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=5)),
        min_replica_size=1,
        load_state_dict=load_state_dict,
        state_dict=state_dict,
        replica_id=f"worker-{group}",
    )
    parallel = DistributedDataParallel(manager, model)
    managed = Optimizer(manager, optimizer)
    sampler = DistributedSampler(dataset, group, groups, group_rank=0, num_replicas=1, shuffle=True)
    loader = StatefulDataLoader(dataset, batch_size=256 // groups, sampler=sampler)
    steps = 3 * asked.samples // 256
    while manager.current_step() < steps:
        for x, y in loader:
            managed.zero_grad()
            loss = cross_entropy(parallel(x), y)
            loss.backward()
            managed.step()
            if manager.current_step() >= steps:
                break
    manager.shutdown()
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
