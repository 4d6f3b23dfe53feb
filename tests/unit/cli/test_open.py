"""`muster open`: an address that logs a browser in."""

import webbrowser
from pathlib import Path

import pytest

from tests.unit.cli.invoke import muster
from tests.unit.cli.lab import Lab


@pytest.fixture
def opened(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the browser was told to open, of a daemon at an address."""
    found: list[str] = []
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    monkeypatch.setenv("MUSTER_URL", "http://127.0.0.1:7077")
    monkeypatch.setattr(webbrowser, "open", found.append)
    return found


def test_open_prints_an_address_with_a_code_and_opens_it(lab: Lab, opened: list[str]) -> None:
    link = muster("open").output.strip()
    assert opened == [link] and link.startswith("http://127.0.0.1:7077/#login=")
    code = link.partition("#login=")[2]
    assert lab.api.http(None).post("/v1/session/redeem", json={"code": code}).status_code == 201


def test_without_a_browser_it_is_printed_only(lab: Lab, opened: list[str]) -> None:
    assert "#login=" in muster("open", "-n").output
    assert opened == []
