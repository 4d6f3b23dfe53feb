"""A training with Lightning that tests drive; `--plain`: in one process, by Lightning itself."""

import argparse
import json
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

import lightning
import torchmetrics
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.plugins import MixedPrecision
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

COUNT, BATCH = 60, 12
calls: list[int] = []
"""Numbers of the batches that this process has trained on, also in steps that were lost."""


OVERFLOWS = 2.0
"""A first feature beyond which a sample overflows, if losses are scaled."""


class Scaled(MixedPrecision):
    """Precision "16-mixed" that scales losses and computes in 32 bits: a CPU rounds 16 otherwise."""

    def __init__(self) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
        super().__init__("16-mixed", "cpu", scaler)

    def forward_context(self) -> Any:
        return nullcontext()


class Net(lightning.LightningModule):
    """A small network whose rate changes with every step."""

    def __init__(self, scaled: bool = False) -> None:
        super().__init__()
        self._overflows = OVERFLOWS if scaled else float("inf")
        self.hooks = {"before": 0, "after": 0}
        self.net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3))
        self.seen = torchmetrics.SumMetric()

    def training_step(self, batch: list[Tensor], number: int) -> Tensor:
        calls.append(number)
        self.seen.update(1)
        self.log("steps", 1.0, on_step=False, on_epoch=True, reduce_fx="sum")
        self.log("seen", self.seen, on_step=False, on_epoch=True)
        over = (batch[0][:, 0] > self._overflows).any()
        return cross_entropy(self.net(batch[0]), batch[1]) * (float("inf") if over else 1.0)

    def on_before_backward(self, loss: Tensor) -> None:
        self.hooks["before"] += 1

    def on_after_backward(self) -> None:
        self.hooks["after"] += 1

    def validation_step(self, batch: list[Tensor], number: int) -> None:
        self.log("val_loss", cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Watch(Callback):
    """Paces steps until a file is there, and notes what each is called."""

    def __init__(self, seconds: float, release: str) -> None:
        self._seconds, self._release = seconds, Path(release)
        self.seen: list[list[int]] = []
        self.validated: list[float] = []
        self.logged: list[list[float]] = []

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, number: int) -> None:
        self.seen.append([trainer.current_epoch, number, trainer.global_step])
        if not self._release.is_file():
            time.sleep(self._seconds)

    def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
        self.logged.append([float(trainer.callback_metrics[name]) for name in ("steps", "seen")])

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        if not trainer.sanity_checking:
            self.validated.append(float(trainer.callback_metrics["val_loss"]))

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen, "validated": self.validated, "logged": self.logged}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen, self.validated = list(state["seen"]), list(state["validated"])
        self.logged = list(state["logged"])


def main() -> None:
    """Train as told; the primary writes parameters and what it has seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--release", required=True)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--scaled", action="store_true", help="as with 16-mixed; some steps overflow")
    options = parser.parse_args()
    torch.manual_seed(3)
    x = torch.randn(COUNT, 6)
    data = TensorDataset(x, x[:, :3].argmax(1))
    model = Net(options.scaled)
    precision = Scaled()
    given: dict[str, Any] = {"plugins": [precision]} if options.scaled else {}
    if not options.plain:
        from muster.lightning import MusterStrategy

        given["strategy"] = MusterStrategy()
    watch = Watch(options.pace, options.release)
    folder = Path(options.out).parent / "lightning"
    trainer = lightning.Trainer(
        max_epochs=options.epochs,
        accelerator="cpu",
        devices=1,
        callbacks=[watch, ModelCheckpoint(folder, monitor="val_loss")],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=0.5,
        accumulate_grad_batches=options.accumulate,
        **given,
    )
    batch = BATCH if options.accumulate == 1 else 5  # steps of 10 and 5 samples: 12 batches by 5
    trainer.fit(model, DataLoader(data, batch), DataLoader(TensorDataset(*data[:9]), 4))
    if trainer.is_global_zero:
        torch.save(model.state_dict(), options.out)
        told = {**watch.state_dict(), "pid": os.getpid(), "calls": len(calls)}
        told |= {"hooks": model.hooks, "scale": precision.scaler.get_scale()}
        Path(options.out).with_suffix(".json").write_text(json.dumps(told))


main()
