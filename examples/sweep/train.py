"""Logistic regression without any library: a script whose learning rate and batch a sweep can search.

muster run examples/sweep/train.py --sweep lr=1e-4..1:log --samples 27 --asha loss -- --lr {lr}
"""

import argparse
import json
import math
import os
import random
from pathlib import Path

import muster

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--epochs", type=int, default=27)
given = parser.parse_args()

draw = random.Random(7)
points = [[draw.gauss(0, 1) for _ in range(8)] for _ in range(1200)]
labels = [float(sum(p[:4]) - p[4] * p[5] + draw.gauss(0, 0.5) > 0) for p in points]
train, held = slice(0, 900), slice(900, 1200)

saved = Path(os.environ.get("MUSTER_CHECKPOINT", ".")) / "weights.json"
saved.parent.mkdir(parents=True, exist_ok=True)
epoch, weights = json.loads(saved.read_text()) if saved.exists() else (0, [0.0] * 9)


def chance(point: list[float]) -> float:
    score = weights[8] + sum(w * x for w, x in zip(weights, point, strict=False))
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))


while epoch < given.epochs:
    rows = list(zip(points[train], labels[train], strict=True))
    random.Random(epoch).shuffle(rows)
    for first in range(0, len(rows), given.batch):
        slopes = [0.0] * 9
        for point, label in rows[first : first + given.batch]:
            error = (chance(point) - label) / given.batch
            slopes = [s + error * x for s, x in zip(slopes, [*point, 1.0], strict=True)]
        weights = [w - given.lr * s for w, s in zip(weights, slopes, strict=True)]
    epoch += 1
    seen = [(chance(point), label) for point, label in zip(points[held], labels[held], strict=True)]
    loss = -sum(math.log(max(1e-9, p if y else 1 - p)) for p, y in seen) / len(seen)
    right = sum((p > 0.5) == bool(y) for p, y in seen) / len(seen)
    print(f"epoch {epoch} loss {loss:.4f} accuracy {right:.3f}", flush=True)
    saved.write_text(json.dumps([epoch, weights]))  # first save, then report: this may be the end
    muster.report(epoch=epoch, loss=loss, accuracy=right)
