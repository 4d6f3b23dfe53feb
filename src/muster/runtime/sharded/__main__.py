"""Write the plain `state_dict` of a model that was saved in parts."""

import argparse
from pathlib import Path

import torch

from muster.runtime.errors import BadCheckpointError
from muster.runtime.sharded.part_files import assembled
from muster.runtime.state.checkpoint import Checkpoints


def export(folder: str, path: str) -> int:
    """Write the model of the newest checkpoint in a folder to a file; return its step."""
    checkpoints = Checkpoints(folder)
    found = checkpoints.latest()
    if found is None:
        raise BadCheckpointError(f"there is no checkpoint in {folder}")
    step, whole = found
    if "parts" in whole:
        whole = assembled(checkpoints.where, whole)
    torch.save(whole["model"], path)
    return step


def main() -> None:
    """Export as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m muster.runtime.sharded", description=__doc__)
    parser.add_argument("folder", help="folder or URL of a training's checkpoints")
    parser.add_argument("path", type=Path, help="file to write")
    options = parser.parse_args()
    try:
        step = export(options.folder, str(options.path))
    except BadCheckpointError as problem:
        parser.exit(1, f"muster: {problem}\n")
    print(f"wrote the model of step {step} to {options.path}")


if __name__ == "__main__":
    main()
