"""A tiny training with a relative checkpoint folder, as in the README: sweep.py RATE EPOCHS."""

import sys

import torch
from torch import nn

import muster

torch.manual_seed(0)
model = nn.Linear(4, 2)
data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,)))
ctx = muster.Training(
    model=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=float(sys.argv[1])),
    loss=nn.CrossEntropyLoss(reduction="none"),
    dataset=data,
    global_batch=16,
    epochs=int(sys.argv[2]),
    checkpoint="checkpoints",
    checkpoint_every=4,
).run()
print(f"final loss {ctx.loss:.4f} at step {ctx.step}")
