"""A daemon that is not there, and a terminal that is."""

import pytest

from muster.cli import connect
from muster.cli.render import terminal
from tests.unit.cli.stub import StubClient, a_lab


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> StubClient:
    """The daemon that commands ask."""
    client = a_lab()
    monkeypatch.setattr(connect, "connect", lambda: client)
    return client


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody reads what is printed."""
    monkeypatch.setattr(terminal, "on_terminal", lambda: True)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody answers what is asked."""
    monkeypatch.setattr(terminal, "can_answer", lambda: True)
