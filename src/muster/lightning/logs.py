"""What `self.log` and metrics have counted: forgotten if their step is redone."""

from typing import Any

from lightning.pytorch.trainer.connectors.logger_connector.result import _ResultMetric
from torchmetrics import Metric


class LoggedValues:
    """The values of a training at the beginning of a step."""

    def __init__(self, trainer: Any) -> None:
        self._results = trainer.fit_loop.epoch_loop._results
        # Lightning replaces values and changes none in place.
        self._values = {key: dict(metric.__dict__) for key, metric in self._results.items()}
        metrics = [m for m in trainer.lightning_module.modules() if _is_own(m)]
        self._states = [(m, m._copy_state_dict(), m._update_count, m._computed) for m in metrics]

    def follow(self, batch: Any) -> None:
        """Let means count the samples of another batch."""
        self._results.batch, self._results.batch_size = batch, None

    def restore(self) -> None:
        """Forget what was logged since."""
        for key in [key for key in self._results if key not in self._values]:
            del self._results[key]
        for key, values in self._values.items():
            self._results[key].__dict__.update(values)
        for metric, state, count, computed in self._states:
            for name, value in state.items():
                setattr(metric, name, value)
            metric._update_count, metric._computed = count, computed


def _is_own(module: Any) -> bool:
    return isinstance(module, Metric) and not isinstance(module, _ResultMetric)
