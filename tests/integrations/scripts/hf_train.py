"""A training of transformers that tests drive; see --help."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from transformers import TrainerCallback

from muster.hf import Trainer
from tests.integrations.scripts import hf_task


class Pace(TrainerCallback):
    """Steps take --pace seconds until the file --release is there."""

    def __init__(self, seconds: float, release: str) -> None:
        self._seconds, self._release = seconds, Path(release)

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        if not self._release.is_file():
            time.sleep(self._seconds)


def main() -> None:
    """Train as told; the primary writes parameters and logs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="bert")
    parser.add_argument("--out", required=True)
    parser.add_argument("--release", required=True)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--scaled", action="store_true", help="as with fp16")
    parser.add_argument("--arguments", default="{}", help="JSON: of TrainingArguments")
    options = parser.parse_args()
    folder = Path(options.out).parent / "trainer"
    trainer = hf_task.make_trainer(
        hf_task.scaled(Trainer) if options.scaled else Trainer,
        options.model,
        folder,
        callbacks=[Pace(options.pace, options.release)],
        **json.loads(options.arguments),
    )
    trainer.train()
    trainer.save_model(str(folder / "final"))
    if trainer.is_world_process_zero():
        torch.save(hf_task.weights(trainer.model), options.out)
        Path(options.out).with_suffix(".json").write_text(json.dumps(trainer.state.log_history))


main()
