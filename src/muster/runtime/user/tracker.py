"""An experiment tracker that sees one run, wherever the primary is."""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

Where = Callable[[], tuple[str, int] | None]
"""Run and step if this worker may write now."""
Busy = Callable[[], AbstractContextManager[None]]
"""Lets the other workers wait: loading a tracker may take longer than a deadline."""


class Tracker:
    """Stands for a writer (TensorBoard, MLflow, W&B): calls reach it on the primary only."""

    def __init__(
        self, start: Callable[[str, int], Any], where: Where, flush: float, busy: Busy = nullcontext
    ) -> None:
        self._start, self._where, self._seconds, self._busy = start, where, flush, busy
        self._writer: Any = None
        self._flushed = 0.0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            writer = self._open()
            if writer is None:
                return None
            result = getattr(writer, name)(*args, **kwargs)
            if time.monotonic() - self._flushed >= self._seconds and hasattr(writer, "flush"):
                writer.flush()
                self._flushed = time.monotonic()
            return result

        return call

    def close(self) -> None:
        """Close the writer, if it was opened here."""
        writer, self._writer = self._writer, None
        for name in ("close", "finish"):
            if hasattr(writer, name):
                getattr(writer, name)()
                return

    def _open(self) -> Any:
        where = self._where()
        if where is None:
            return None
        if self._writer is None:
            let_wandb_flush(self._seconds)
            with self._busy():
                self._writer = self._start(*where)
        return self._writer


def let_wandb_flush(seconds: float) -> None:
    """Let W&B write its file this often: by itself every 15 s, and a kill would lose all since then."""
    os.environ.setdefault("WANDB__TRANSACTION_LOG_FLUSH_INTERVAL", str(max(seconds, 0.1)))
