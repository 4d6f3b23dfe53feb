"""Optional libraries, imported on use."""

from importlib import import_module
from types import ModuleType

from muster.files.errors import InputError


def needed(module: str, what: str) -> ModuleType:
    """Import a module of an optional library; InputError says how to install it."""
    try:
        return import_module(module)
    except ImportError:
        library = module.partition(".")[0]
        raise InputError(f"{what} needs {library}: pip install 'musterd[report]'") from None
