"""The features by subject; every module ends with `FEATURES`."""

import pkgutil
from functools import cache
from importlib import import_module

from tests.matrix.feature import Feature


@cache
def features() -> dict[str, Feature]:
    """Every feature by its title, in the order of the page."""
    found = [
        one
        for module in pkgutil.iter_modules(__path__)
        for one in import_module(f"{__name__}.{module.name}").FEATURES
    ]
    return {one.title: one for one in found}
