"""An experiment tracker that sees one run, wherever the primary is."""

import time
from collections.abc import Callable
from typing import Any

Where = Callable[[], tuple[str, int] | None]
"""Run and step if this worker may write now."""


class Tracker:
    """Stands for a writer (TensorBoard, MLflow, W&B): calls reach it on the primary only."""

    def __init__(self, start: Callable[[str, int], Any], where: Where, flush: float) -> None:
        self._start, self._where, self._seconds = start, where, flush
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
            self._writer = self._start(*where)
        return self._writer
