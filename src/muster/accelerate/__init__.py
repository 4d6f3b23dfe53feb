"""Hugging Face Accelerate: `from muster.accelerate import Accelerator`, and `accelerator.epochs(n)`.

Import it before an `Accelerator` is made: that would form a fixed group of processes.
"""

from muster.integration.process import hide_group

hide_group()

from muster.accelerate.accelerator import Accelerator  # noqa: E402

__all__ = ["Accelerator"]
