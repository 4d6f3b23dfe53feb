"""Every policy by name: those that the modules of this package list in `POLICIES`."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from muster import policy
from muster.policy.base import Policy


def _found() -> Iterator[Policy]:
    for module in iter_modules(policy.__path__, "muster.policy."):
        if module.name != __name__:
            yield from getattr(import_module(module.name), "POLICIES", ())


POLICIES: dict[str, Policy] = {each.name: each for each in _found()}
