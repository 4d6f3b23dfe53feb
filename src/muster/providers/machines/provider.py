"""Nothing to bring: agents come by themselves, with a token that an administrator made."""

from collections.abc import Callable

from muster.files.errors import InputError
from muster.ports import NodeDemand, ProviderNews
from muster.providers.settings import EngineSettings


class Machines:
    """The provider of machines that somebody else starts agents on."""

    name = "machines"

    def begin(self, tell: Callable[[ProviderNews], None]) -> None:
        """Nothing to start, and nothing to tell."""

    def want(self, demand: NodeDemand) -> None:
        """Nobody to ask for more."""

    def close(self) -> None:
        """Nothing to stop."""


def open_provider(settings: EngineSettings) -> Machines:
    """Return the provider; it has no options."""
    given = {
        "--address": settings.address,
        "--partition": settings.partition,
        "--nodes": settings.nodes,
        "--time": settings.time,
        "--engine-option": settings.extra or None,
    }
    for option, value in given.items():
        if value is not None:
            raise InputError.at(option, "is not for --engine machines; leave it out")
    return Machines()
