"""The same with Horovod Elastic: `horovodrun --min-np 1 --host-discovery-script hosts.sh python ...`.

Survivors keep their processes. What a worker has not committed is lost with it, and its samples are
redistributed; the loader is rebuilt at every change, since the batch of each worker has changed.
"""

import argparse
from typing import Any

import horovod.torch as hvd  # type: ignore[import-not-found]
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=8192)
    asked = parser.parse_args()
    hvd.init()
    torch.manual_seed(0)
    labels = torch.randint(4, (asked.samples,))
    images = torch.randn(asked.samples, 1, 16, 16) + labels.reshape(-1, 1, 1, 1) / 4
    dataset = TensorDataset(images, labels)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(dataset, shuffle=True)

    @hvd.elastic.run  # type: ignore[untyped-decorator]
    def train(state: Any) -> None:
        batch = 256 // hvd.size()
        loader = DataLoader(dataset, batch_size=batch, sampler=state.sampler)
        for state.epoch in range(state.epoch, 3):  # noqa: B020
            for place, (x, y) in enumerate(loader):
                state.optimizer.zero_grad()
                loss = cross_entropy(state.model(x), y)
                loss.backward()
                state.optimizer.step()
                state.sampler.record_batch(place, batch)
                state.commit()
            state.sampler.set_epoch(state.epoch + 1)
        print(f"final loss {loss.item():.4f}")

    train(hvd.elastic.TorchState(model, optimizer, epoch=0, sampler=sampler))


if __name__ == "__main__":
    main()
