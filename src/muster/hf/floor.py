"""Who speaks for all: logs, progress bars, trackers and files are the primary's."""

from pathlib import Path
from typing import Any

from transformers.trainer_callback import ProgressCallback

from muster.accelerate.speak import speak
from muster.integration.trackers import name_run


def take_floor(trainer: Any) -> None:
    """Let this worker speak if it is the primary now, and only then."""
    primary = trainer.session.primary
    speak(primary)
    state = trainer.state
    before, state.is_world_process_zero = state.is_world_process_zero, primary
    state.is_local_process_zero = primary
    if primary and not before and trainer.is_in_train:
        _open_trackers(trainer)


def begin_run(trainer: Any) -> None:
    """Let trackers continue one run wherever the primary is: TensorBoard by its folder, others by name.

    A folder that the user has set stays.
    """
    name = trainer.session.run_id
    if trainer.session.primary:
        with trainer.session.busy():
            name_run(name, _tracks_by_mlflow(trainer))
    for callback in trainer.callback_handler.callbacks:
        if _is_tracker(callback) and getattr(callback, "logging_dir", "") is None:
            callback.logging_dir = str(Path(trainer.args.output_dir) / "runs" / name)


def _open_trackers(trainer: Any) -> None:
    """Open what the previous primary had open; callbacks of the user's begin only once."""
    handler = trainer.callback_handler
    everyone = handler.callbacks
    handler.callbacks = [each for each in everyone if _is_tracker(each)]
    for each in handler.callbacks:
        if hasattr(each, "_initialized"):
            each._initialized = False  # it was, for a worker that tracks nothing
    try:
        with trainer.session.busy():
            name_run(trainer.session.run_id, _tracks_by_mlflow(trainer))
            trainer.control = handler.on_train_begin(trainer.args, trainer.state, trainer.control)
    finally:
        handler.callbacks = everyone


def _is_tracker(callback: Any) -> bool:
    module = type(callback).__module__
    return isinstance(callback, ProgressCallback) or module.startswith("transformers.integrations")


def _tracks_by_mlflow(trainer: Any) -> bool:
    callbacks = trainer.callback_handler.callbacks
    return any(type(each).__name__ == "MLflowCallback" for each in callbacks)
