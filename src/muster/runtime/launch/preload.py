"""What a script imports that is slow to load: tasks are forked from a process that has loaded it."""

import re
from collections.abc import Sequence
from pathlib import Path

_IMPORT = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)
_HEAVY = {
    "transformers": ("transformers.trainer", "transformers.modeling_utils"),
    "muster.hf": ("transformers.trainer", "transformers.modeling_utils"),
    "accelerate": ("accelerate",),
    "muster.accelerate": ("accelerate",),
    "lightning": ("lightning.pytorch",),
    "muster.lightning": ("lightning.pytorch",),
    "peft": ("peft",),
}
"""Seconds each. Not our own packages: those look at a task's environment when they are imported."""


def heavy_imports(script: str | Path) -> tuple[str, ...]:
    """Return the modules to load before a script's tasks are forked; a script may import more."""
    try:
        text = Path(script).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ()  # the tasks will say what is wrong with it
    return _loaded(_IMPORT.findall(text))


def _loaded(imported: Sequence[str]) -> tuple[str, ...]:
    found = [
        module
        for name, modules in _HEAVY.items()
        if any(f"{each}.".startswith(f"{name}.") for each in imported)
        for module in modules
    ]
    return tuple(dict.fromkeys(found))
