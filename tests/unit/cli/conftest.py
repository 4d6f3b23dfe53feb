"""A daemon that is not there, and a terminal that is."""

from collections.abc import Iterator

import pytest

from muster.cli import connect
from muster.cli.render import terminal
from tests.unit.cli.lab import Lab, a_lab


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The daemon that commands ask."""
    with a_lab() as found:
        monkeypatch.setattr(connect, "connect", found.client)
        yield found


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody reads what is printed."""
    monkeypatch.setattr(terminal, "on_terminal", lambda: True)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody answers what is asked."""
    monkeypatch.setattr(terminal, "can_answer", lambda: True)
