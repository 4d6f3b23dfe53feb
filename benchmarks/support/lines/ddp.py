"""The same with DistributedDataParallel, elastic by restarts: `torchrun --nproc-per-node 3 ddp.py`.

A change of members or a death ends every process; torchrun starts new ones, which go on from the last
checkpoint, hence from the beginning of the epoch that was lost.
"""

import argparse
from pathlib import Path

# Not just torch: imported later, by the first optimizer step, functions of torch.distributed.nn would
# keep the process group as a default argument, alive at exit with threads that can abort the process.
import torch.distributed.nn
from torch import distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    asked = parser.parse_args()
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    labels = torch.randint(4, (asked.samples,))
    images = torch.randn(asked.samples, 1, 16, 16) + labels.reshape(-1, 1, 1, 1) / 4
    dataset = TensorDataset(images, labels)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    first = 0
    if asked.checkpoint.exists():
        saved = torch.load(asked.checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1
    parallel = DistributedDataParallel(model)
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=256 // distributed.get_world_size(), sampler=sampler)
    for epoch in range(first, 3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = cross_entropy(parallel(x), y)
            loss.backward()
            optimizer.step()
        if distributed.get_rank() == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            part = asked.checkpoint.with_suffix(".part")
            torch.save(state, part)
            part.replace(asked.checkpoint)
    print(f"final loss {loss.item():.4f}")
    # One that destroys its group while the other still uses it can leave that one waiting for ever.
    del parallel
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
