"""Experiment trackers: one run, in which each step is once, with the loss that plain torch has."""

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.matrix.feature import Feature, Parts, Result, mean_backward
from tests.matrix.order import batches


class Logged(Feature):
    """A training that logs its losses; subclasses know a tracker."""

    lost = 0
    """Most steps that a primary may take with it when it is killed, beside its last one."""

    def start(self, folder: Path, run: str, step: int) -> Any:
        """Open the tracker, to continue a run."""

    def write(self, log: Any, loss: float, step: int) -> None:
        """Log a loss."""

    def read(self, folder: Path) -> dict[int, float]:
        """Return the losses by step of the only run."""
        raise NotImplementedError

    def elastic(self, ctx: Any, parts: Parts, pace: Callable[[], None]) -> None:
        log = ctx.tracker(lambda run, step: self.start(parts.folder, run, step), flush=0)
        for batch in ctx.steps():
            pace()
            self.body(parts, batch, ctx.backward, ctx.step)
            self.write(log, ctx.step_loss, ctx.step)
        log.close()
        if ctx.primary:
            found = self.read(parts.folder)
            parts.more["logged"] = [found.pop(step, torch.nan) for step in range(ctx.step)]
            assert not found, f"steps that nobody did: {found}"

    def plain(self, parts: Parts, steps: int, seed: int = 0) -> None:
        logged = parts.more["logged"] = []

        def noted(losses: Tensor) -> None:
            logged.append(float(losses.detach().mean()))
            mean_backward(losses)

        for step, batch in enumerate(batches(parts.data, self.options(), steps, seed)):
            self.body(parts, batch, noted, step)

    def result(self, parts: Parts) -> Result:
        return {**super().result(parts), "logged": torch.tensor(parts.more["logged"])}

    def excused(self, found: Result, plain: Result, last: Sequence[int]) -> Result:
        """A step may count and its primary be killed before it has logged it."""
        logged = found["logged"].clone()
        for step in last:
            if logged[step].isnan():
                logged[step] = plain["logged"][step]
        return {**found, "logged": logged}

    def difference(self, found: Result, plain: Result) -> float:
        """Trackers round to float32."""
        logged, there = found.pop("logged"), plain.pop("logged")
        missing = logged.isnan()
        if missing.sum() > self.lost or not torch.allclose(
            logged[~missing], there[~missing], rtol=1e-6
        ):
            return torch.inf
        return super().difference(found, plain)


class TensorBoard(Logged):
    title = "TensorBoard"
    note = "`ctx.tracker(start)`; every step once, in one run; a kill may take its last step along"
    needs = "tensorboard"

    def start(self, folder: Path, run: str, step: int) -> Any:
        module: Any = import_module("torch.utils.tensorboard")
        return module.SummaryWriter(folder / "runs" / run, purge_step=step)

    def write(self, log: Any, loss: float, step: int) -> None:
        log.add_scalar("loss", loss, step)

    def read(self, folder: Path) -> dict[int, float]:
        module: Any = import_module("tensorboard.backend.event_processing.event_accumulator")
        (run,) = (folder / "runs").iterdir()
        events = module.EventAccumulator(str(run)).Reload().Scalars("loss")
        return {event.step: event.value for event in events}


class MLflow(Logged):
    title = "MLflow"
    note = TensorBoard.note
    needs = "mlflow"

    def _open(self, folder: Path) -> Any:
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # its database takes 10 s to be made
        mlflow: Any = import_module("mlflow")
        mlflow.set_tracking_uri((folder / "mlruns").as_uri())
        return mlflow

    def start(self, folder: Path, run: str, step: int) -> Any:
        mlflow = self._open(folder)
        found = mlflow.search_runs(filter_string=f"tags.muster = '{run}'", output_format="list")
        known = found[0].info.run_id if found else None
        mlflow.start_run(run_id=known, tags=None if known else {"muster": run})
        return mlflow

    def write(self, log: Any, loss: float, step: int) -> None:
        log.log_metric("loss", loss, step=step)

    def read(self, folder: Path) -> dict[int, float]:
        mlflow = self._open(folder)
        (run,) = mlflow.search_runs(output_format="list", search_all_experiments=True)
        points = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
        return {point.step: point.value for point in points}


class Wandb(Logged):
    title = "Weights & Biases, offline"
    note = "`log.log(..., step=ctx.step, commit=True)`; a kill loses what is not flushed"
    needs = "wandb"
    lost = 10  # it writes its file every 0.1 s here

    def start(self, folder: Path, run: str, step: int) -> Any:
        wandb: Any = import_module("wandb")
        quiet = wandb.Settings(silent=True, console="off")
        return wandb.init(
            id=run, resume="allow", mode="offline", project="muster", dir=folder, settings=quiet
        )

    def write(self, log: Any, loss: float, step: int) -> None:
        log.log({"loss": loss}, step=step, commit=True)

    def read(self, folder: Path) -> dict[int, float]:
        return self.column(folder, "loss", "_step")

    def column(self, folder: Path, name: str, by: str) -> dict[int, float]:
        """Return a column by the steps in another one."""
        import_module("wandb").teardown()  # waits for the process that writes
        messages: Any = import_module("wandb.proto.wandb_internal_pb2")
        files = sorted((folder / "wandb").glob("offline-run-*/*.wandb"))
        assert len({file.name for file in files}) == 1, "one id"
        found = {}
        for packed in (each for file in files for each in _records(file.read_bytes())):
            items = {
                "/".join(item.nested_key) or item.key: item.value_json
                for item in messages.Record.FromString(packed).history.item
            }
            if name in items:
                found[int(items[by])] = float(items[name])
        return found


def _records(data: bytes) -> Iterator[bytes]:
    """Yield the records of W&B's file: LevelDB's log format, after seven bytes."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = 32_768 - at % 32_768
        if left < 7:
            at += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        if kind == 0:
            return
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or a last part
            yield whole
            whole = b""


FEATURES = (TensorBoard(), MLflow(), Wandb())
