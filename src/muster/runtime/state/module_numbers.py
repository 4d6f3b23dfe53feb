"""Numbers that modules keep as plain attributes, such as a counter of forward passes.

torch knows nothing of them, but a model may depend on them (an annealed weight). Those that change
while training go to joiners and into checkpoints, and a redone step begins with what they were.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Number = bool | int | float
Place = tuple[str, Any, str]
"""Its name, the module, the attribute."""

OFTEN = 4
"""Steps at the beginning after each of which new ones are looked for; later, every `SELDOM` steps."""
SELDOM = 64


class ModuleNumbers:
    """The changing numbers of a training's models."""

    def __init__(self, models: Callable[[], Iterator[tuple[str, Any]]]) -> None:
        self._models = models
        self._first: dict[str, Number] = {}
        """As they were before the first step."""
        self._places: dict[str, Place] = {}
        """Those that have changed."""
        self._before: dict[str, Number] = {}

    def start(self) -> None:
        """Note how everything begins."""
        self._first = {name: getattr(module, key) for name, module, key in self._all()}

    def reset(self) -> None:
        """Undo what trying the models out has changed."""
        self.set(self._first)
        self._places.clear()

    def begin(self, step: int) -> None:
        """Note what a step begins with."""
        if step <= OFTEN or step % SELDOM == 0:
            self._look()
        self._before = {name: getattr(m, key, 0) for name, m, key in self._places.values()}

    def redo(self) -> None:
        """Go back to what the step began with."""
        self.set(self._before)

    def changed(self) -> dict[str, Number]:
        """Return those that are not as they began."""
        self._look()
        return {name: getattr(m, key, 0) for name, m, key in self._places.values()}

    def set(self, values: Mapping[str, Number]) -> None:
        """Adopt another member's, or those of a checkpoint."""
        for name, module, key in list(self._all()):
            if name in values:
                setattr(module, key, values[name])
                self._places[name] = name, module, key

    def _look(self) -> None:
        for place in self._all():
            name, module, key = place
            if self._first.get(name) != getattr(module, key):
                self._places[name] = place

    def _all(self) -> Iterator[Place]:
        for prefix, model in self._models():
            for path, module in model.named_modules():
                for key, value in vars(module).items():
                    own = not key.startswith("_") and key != "training"
                    if own and isinstance(value, bool | int | float):
                        yield f"{prefix}{path}.{key}", module, key
