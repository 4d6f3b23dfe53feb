"""Descends a parabola: a training whose loss after any number of epochs follows from its rate."""

import argparse
import json
import os
from pathlib import Path

import muster

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--epochs", type=int, default=9)
given = parser.parse_args()

saved = Path(os.environ["MUSTER_CHECKPOINT"]) / "state.json"
saved.parent.mkdir(parents=True, exist_ok=True)
epoch, weight = json.loads(saved.read_text()) if saved.exists() else (0, 1.0)
print(f"from epoch {epoch}", flush=True)
while epoch < given.epochs:
    weight -= given.lr * 2 * weight
    epoch += 1
    saved.write_text(json.dumps([epoch, weight]))
    muster.report(epoch=epoch, loss=weight**2, weight=weight)
print(f"after epoch {epoch}", flush=True)
