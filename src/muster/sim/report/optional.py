"""Libraries that only some reports need, imported when they do."""

from importlib import import_module
from types import ModuleType

from muster.files.errors import InputError


def needed(module: str, what: str) -> ModuleType:
    """A module of an optional library, or InputError with the way to get it."""
    try:
        return import_module(module)
    except ImportError:
        library = module.partition(".")[0]
        raise InputError(f"{what} needs {library}: pip install 'musterd[report]'") from None
