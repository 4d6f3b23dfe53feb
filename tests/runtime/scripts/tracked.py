"""A training that writes its losses to a tracker, on whichever worker is the primary."""

import argparse
import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from tests.runtime.scripts import tasks

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", required=True)
parser.add_argument("--release", required=True)
parser.add_argument("--to", required=True, help="tensorboard or mlflow")
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--pace", type=float, default=0.03)
parser.add_argument("--checkpoint")
options = parser.parse_args()
folder = Path(options.out).parent


def tensorboard(run: str, step: int) -> Any:
    """A writer that continues a run: what was written from this step on is written again."""
    module: Any = importlib.import_module("torch.utils.tensorboard")
    return module.SummaryWriter(folder / "runs" / run, purge_step=step)


def mlflow(run: str, step: int) -> Any:
    """A run in MLflow's files, found by the name of ours."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # its database takes 10 s to be made
    mlflow: Any = importlib.import_module("mlflow")
    mlflow.set_tracking_uri((folder / "mlruns").as_uri())
    mlflow.set_experiment("muster")
    found = mlflow.search_runs(filter_string=f"tags.muster = '{run}'", output_format="list")
    known = found[0].info.run_id if found else None
    mlflow.start_run(run_id=known, tags=None if known else {"muster": run})
    return mlflow


model, optimizer, data = tasks.make("cnn")
ctx = muster.init()
ctx.wrap(model, optimizer)
ctx.data(data, global_batch=tasks.BATCH, epochs=options.epochs)
if options.checkpoint:
    ctx.checkpoint(options.checkpoint, every=5)
log = ctx.tracker({"tensorboard": tensorboard, "mlflow": mlflow}[options.to], flush=0)
for batch in ctx.steps():
    time.sleep(options.pace if not Path(options.release).exists() else 0)
    optimizer.zero_grad()
    ctx.backward(tasks.losses(model, *batch))
    optimizer.step()
    if options.to == "tensorboard":
        log.add_scalar("loss", ctx.loss, ctx.step)
    else:
        log.log_metric("loss", ctx.loss if ctx.step else 0.0, step=ctx.step)
log.close()
(folder / "run_id").open("a").write(f"{ctx.run_id}\n")
if ctx.primary:
    torch.save(model.state_dict(), options.out)
