"""Trains a feature of the matrix under the launcher: --feature TITLE --out FILE."""

import argparse
import os
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

import muster
from tests.matrix.features import features


def main() -> None:
    """Train until told to stop; the first worker writes the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--feature", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--release", required=True)
    parser.add_argument("--pace", type=float, default=0.02)
    options = parser.parse_args()
    os.environ["NCCL_HOSTID"] = os.environ["MUSTER_TASK"]  # workers that share a GPU may use NCCL
    feature = features()[options.feature]
    feature.begin()
    torch.set_default_dtype(torch.float64)
    parts = feature.build()
    parts.folder = Path(options.out).parent
    ctx = muster.init()
    feature.wrap(ctx, parts)
    ctx.data(parts.data, **{"steps": 10_000, **feature.options()})

    def pace() -> None:
        if not Path(options.release).is_file():
            time.sleep(options.pace)

    feature.elastic(ctx, parts, pace)
    if ctx.primary:
        torch.save({name: value.cpu() for name, value in feature.result(parts).items()}, options.out)


if __name__ == "__main__":
    main()
