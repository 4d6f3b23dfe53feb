"""Where a client finds its daemon and its token."""

from pathlib import Path

import pytest

from muster.client import (
    Client,
    ClientError,
    ClientSettings,
    read_settings,
    settings_path,
    write_settings,
)
from muster.client.connecting import settings


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a folder of its own."""
    return {"MUSTER_HOME": str(tmp_path / "home")}


def test_what_was_written_down_is_found(home: dict[str, str]) -> None:
    written = ClientSettings("http://127.0.0.1:7", "secret", "/ca.pem")
    path = write_settings(written, home)
    assert read_settings(home) == written
    assert path == settings_path(home)
    assert path.stat().st_mode & 0o777 == 0o600
    write_settings(ClientSettings("http://127.0.0.1:8"), home)
    assert read_settings(home) == ClientSettings("http://127.0.0.1:8")
    assert [each.name for each in path.parent.iterdir()] == ["client.json"]


def test_the_environment_comes_first(home: dict[str, str]) -> None:
    write_settings(ClientSettings("http://127.0.0.1:7", "secret", "/ca.pem"), home)
    assert read_settings({**home, "MUSTER_API_TOKEN": "t"}) == ClientSettings(
        "http://127.0.0.1:7", "t", "/ca.pem"
    )
    both = {**home, "MUSTER_URL": "http://elsewhere", "MUSTER_API_TOKEN": "t"}
    assert read_settings(both) == ClientSettings("http://elsewhere", "t")


def test_a_token_is_shown_to_its_own_daemon_only(home: dict[str, str]) -> None:
    write_settings(ClientSettings("http://127.0.0.1:7", "secret"), home)
    assert read_settings({**home, "MUSTER_URL": "http://127.0.0.1:7/"}).token == "secret"
    assert read_settings({**home, "MUSTER_URL": "http://127.0.0.1:8"}).token is None


def test_a_daemon_is_known_by_its_socket_and_by_its_address(home: dict[str, str]) -> None:
    """Its token goes to the address, the socket needs none."""
    write_settings(ClientSettings("unix:///m.sock", "secret", "/ca.pem", "http://127.0.0.1:7"), home)
    assert (read_settings(home).url, read_settings(home).token) == ("unix:///m.sock", None)
    over_tcp = read_settings({**home, "MUSTER_URL": "http://127.0.0.1:7/"})
    assert (over_tcp.url, over_tcp.token, over_tcp.ca) == ("http://127.0.0.1:7", "secret", "/ca.pem")
    assert read_settings({**home, "MUSTER_API_TOKEN": "t"}).token == "t"
    elsewhere = {**home, "MUSTER_URL": "https://gpu1:7077", "MUSTER_CA": "sha256:12"}
    assert read_settings(elsewhere) == ClientSettings("https://gpu1:7077", ca="sha256:12")


def test_the_socket_of_the_machine_is_found_without_settings(
    home: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "SHARED_SOCKET", tmp_path / "muster.sock")
    with pytest.raises(ClientError, match="unknown"):
        read_settings(home)
    (tmp_path / "muster.sock").touch()
    assert read_settings(home).url == f"unix://{tmp_path}/muster.sock"


def test_without_settings_it_is_said_what_helps(
    home: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MUSTER_URL", "MUSTER_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MUSTER_HOME", home["MUSTER_HOME"])
    with pytest.raises(ClientError, match="muster up"):
        Client().status()


def test_a_broken_file_is_told_unless_it_is_not_needed(home: dict[str, str]) -> None:
    path = settings_path(home)
    path.parent.mkdir()
    path.write_text("{")
    with pytest.raises(ClientError, match="cannot be read"):
        read_settings(home)
    assert read_settings({**home, "MUSTER_URL": "http://a"}) == ClientSettings("http://a")


def test_without_a_folder_of_its_own_it_is_the_users() -> None:
    assert settings_path({}).name == "client.json"
    assert settings_path({}).is_relative_to(Path.home())
