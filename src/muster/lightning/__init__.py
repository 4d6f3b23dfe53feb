"""Lightning: `Trainer(strategy=MusterStrategy())`.

Import it before the `Trainer` is made: that would form a fixed group of processes.
"""

from muster.integration.process import hide_group

hide_group()

from muster.lightning.strategy import MusterStrategy  # noqa: E402

__all__ = ["MusterStrategy"]
