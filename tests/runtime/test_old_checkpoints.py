"""Checkpoints that earlier code has written are resumed from."""

import shutil
import subprocess
import sys
from pathlib import Path

import torch

OLD = Path(__file__).parents[1] / "data" / "checkpoints" / "2026-11-15"
"""Of the training below, by the code of that day: after 6 of its 8 steps, and at its end."""
TRAINING = """
import sys, torch, muster
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = ExponentialLR(optimizer, 0.9)
x = torch.arange(64.0).view(16, 4) / 64
ctx = muster.init()
ctx.wrap(model, optimizer, schedule)
ctx.data(torch.utils.data.TensorDataset(x, x[:, :2]), global_batch=4, epochs=2)
ctx.checkpoint(sys.argv[1], every=3)
for a, b in ctx.steps():
    optimizer.zero_grad()
    ctx.backward((model(a) - b).pow(2).mean(1))
    optimizer.step()
    schedule.step()
    print(ctx.step)
"""


def test_a_training_goes_on_from_an_old_checkpoint(tmp_path: Path) -> None:
    shutil.copy(OLD / "step-000000000006.pt", tmp_path)
    command = [sys.executable, "-c", TRAINING, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split()[-2:] == ["6", "7"]
    (last,) = tmp_path.glob("step-000000000008*.pt")
    found, wanted = (torch.load(path)["model"] for path in (last, OLD / "step-000000000008.pt"))
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor)
