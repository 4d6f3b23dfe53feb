"""Sockets and certificates that a daemon makes for itself."""

import os
import stat
from pathlib import Path

import pytest

from muster.api.door.listener import Tls
from muster.api.door.unix_socket import bound_unix
from muster.app.certificate import context_of_server, fingerprint, tls_of
from muster.app.door import Door
from muster.app.options import UpOptions
from muster.app.socket_place import LONGEST, private_socket, shared_socket
from muster.files.errors import InputError


def test_on_loopback_there_is_no_tls_and_nobody_comes_from_elsewhere(tmp_path: Path) -> None:
    with Door(UpOptions(data=tmp_path, port=0)) as door:
        assert (door.context, door.elsewhere()) == (None, None)
        settings = door.settings("secret")
        assert settings.url == f"unix://{tmp_path}/muster.sock"
        assert settings.http == door.url
    assert list(tmp_path.iterdir()) == []


def test_off_loopback_there_is_tls_with_a_certificate_that_stays(tmp_path: Path) -> None:
    options = UpOptions(data=tmp_path, port=0, host="0.0.0.0")
    with Door(options) as door:
        said = door.elsewhere()
        assert said is not None
        assert said.startswith("MUSTER_URL=https://") and "MUSTER_CA=sha256:" in said
    pin = said.rpartition(":")[2]
    again = tls_of(options)
    assert again is not None
    assert fingerprint(again.certificate) == pin, "clients have pinned it"
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tls", tmp_path / "tls/key.pem")]
    assert modes == [0o700, 0o600]


def test_without_tls_off_loopback_only_if_told(tmp_path: Path) -> None:
    assert tls_of(UpOptions(data=tmp_path, host="0.0.0.0", tls=False)) is None
    own = tls_of(UpOptions(data=tmp_path, tls_cert=Path("a.pem"), tls_key=Path("k.pem")))
    assert own == Tls(Path.cwd() / "a.pem", Path.cwd() / "k.pem")


def test_a_certificate_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_text("rubbish", encoding="ascii")
    for path in (tmp_path / "none.pem", tmp_path / "a.pem"):
        with pytest.raises(InputError, match="--tls-cert: cannot use"):
            context_of_server(Tls(path, path))


def test_a_machine_may_be_called_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "büro")
    made = tls_of(UpOptions(data=tmp_path, host="0.0.0.0"))
    assert context_of_server(made) is not None


def test_a_path_too_long_for_a_socket_gets_a_shorter_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * LONGEST)
    runtime = tmp_path / "r"
    runtime.mkdir(mode=0o700)
    found = private_socket(deep, {"XDG_RUNTIME_DIR": str(runtime)})
    assert found.parent == runtime / "muster"
    assert found != private_socket(deep / "e", {"XDG_RUNTIME_DIR": str(runtime)})
    runtime.chmod(0o755)  # no longer private
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    other = private_socket(deep, {"XDG_RUNTIME_DIR": str(runtime)})
    assert other.parent == tmp_path / f"muster-{os.geteuid()}"
    other.parent.chmod(0o777)  # as another user would have made it
    with pytest.raises(InputError, match="not a folder of yours alone"):
        private_socket(deep, {})


def test_a_shared_socket_is_for_all(tmp_path: Path) -> None:
    path = shared_socket(tmp_path / "run" / "muster.sock")
    with bound_unix(path, 0o666):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
    with pytest.raises(InputError, match="at most 107 bytes"):
        shared_socket(tmp_path / ("d" * LONGEST))


def test_a_socket_left_behind_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "m.sock"
    bound_unix(path, 0o600).close()
    with bound_unix(path, 0o600), pytest.raises(OSError, match="in use"):
        bound_unix(path, 0o600)
    path.unlink()
    path.write_text("precious", encoding="ascii")
    with pytest.raises(OSError, match="exists"):
        bound_unix(path, 0o600)
    assert path.read_text(encoding="ascii") == "precious"


def test_the_folder_of_a_shared_socket_is_open_to_all_however_private_the_daemon(
    tmp_path: Path,
) -> None:
    before = os.umask(0o077)
    try:
        path = shared_socket(tmp_path / "muster" / "muster.sock")
    finally:
        os.umask(before)
    assert path.parent.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("folder", ["/muster-nonexist", "/run/muster-nonexist/deep"])
def test_a_slip_in_the_path_of_a_shared_socket_makes_no_folders(folder: str) -> None:
    with pytest.raises(InputError, match=f"--socket: no folder {folder}; make it first"):
        shared_socket(Path(folder) / "muster.sock")
    assert not Path(folder).exists()
