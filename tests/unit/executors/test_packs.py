"""Packs on disk: verified, resumable, pruned, and unpacked into their own folder only."""

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from muster.executors.local.unpack import UnsafeError, unpack
from muster.executors.packs import BadPackError, PackFolder


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def put(packs: PackFolder, data: bytes, at: float | None = None) -> str:
    name = digest(data)
    packs.add(name, 0, data)
    packs.finish(name)
    if at is not None:
        os.utime(packs.path(name), (at, at))
    return name


def test_a_pack_comes_in_parts_and_is_there_once_it_is_whole(tmp_path: Path) -> None:
    packs, data = PackFolder(tmp_path / "packs"), b"0123456789"
    name = digest(data)
    assert packs.add(name, 0, data[:4]) == 4
    assert packs.add(name, 0, data[:4]) == 4  # sent again
    with pytest.raises(BadPackError, match="bytes 4 to 6 of the pack are missing"):
        packs.add(name, 6, data[6:])
    assert not packs.has(name)
    assert PackFolder(tmp_path / "packs").add(name, 4, data[4:]) == 10  # after a restart
    packs.finish(name)
    assert packs.path(name).read_bytes() == data


def test_other_content_than_the_digest_says_is_dropped(tmp_path: Path) -> None:
    packs, name = PackFolder(tmp_path), digest(b"good")
    packs.add(name, 0, b"evil")
    with pytest.raises(BadPackError, match="is damaged"):
        packs.finish(name)
    assert (packs.size(name), packs.has(name)) == (0, False)


@pytest.mark.parametrize("name", ["", "sha256:abc", "sha256:../../etc/passwd", "../" + "0" * 64])
def test_only_digests_name_packs(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadPackError, match="is not the digest of a pack"):
        PackFolder(tmp_path).add(name, 0, b"")


def test_the_least_recently_used_packs_make_room(tmp_path: Path) -> None:
    packs = PackFolder(tmp_path)
    old, needed, young = (put(packs, bytes([n]) * 100, at) for n, at in ((1, 10), (2, 5), (3, 20)))
    assert packs.prune({needed}, 0.0, most=200) == 1
    assert [packs.has(each) for each in (old, needed, young)] == [False, True, True]
    assert packs.prune({needed}, older_than=30.0) == 1
    assert [packs.has(each) for each in (needed, young)] == [True, False]


def forged(*members: tarfile.TarInfo) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return made.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    info.size = 1 if kind == tarfile.REGTYPE else 0
    return info


def unpacked(tmp_path: Path, pack: bytes) -> Path:
    (tmp_path / "pack").write_bytes(pack)
    unpack(os.open(tmp_path / "pack", os.O_RDONLY), str(tmp_path / "job" / "work"))
    return tmp_path / "job" / "work"


@pytest.mark.parametrize(
    "members",
    [
        [entry("/etc/evil")],
        [entry("../evil")],
        [entry("a/../../evil")],
        [entry("link", tarfile.SYMTYPE, "/etc")],
        [entry("link", tarfile.SYMTYPE, "../..")],
        [entry("here", tarfile.SYMTYPE, "."), entry("here/evil")],
        [entry("file", tarfile.SYMTYPE, "other"), entry("file")],
        [entry("hard", tarfile.LNKTYPE, "/etc/passwd")],
        [entry("device", tarfile.CHRTYPE)],
        [entry("pipe", tarfile.FIFOTYPE)],
    ],
)
def test_a_forged_pack_writes_nothing(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    with pytest.raises(UnsafeError):
        unpacked(tmp_path, forged(*members))
    assert not list((tmp_path / "job").iterdir())
    assert not (tmp_path / "evil").exists()


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = entry("zeros")
    bomb.size = 301_000_000
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        tar.fileobj.write(bomb.tobuf())
    with pytest.raises(UnsafeError, match="larger than a shipped folder may be"):
        unpacked(tmp_path, made.getvalue())


def test_what_a_job_has_written_stays_when_it_restarts(tmp_path: Path) -> None:
    pack = forged(entry("train.py"), entry("lib", tarfile.DIRTYPE), entry("l", tarfile.SYMTYPE, "lib"))
    work = unpacked(tmp_path, pack)
    (work / "result").write_text("42")
    assert unpacked(tmp_path, pack) == work
    assert sorted(path.name for path in work.iterdir()) == ["l", "lib", "result", "train.py"]
    assert not list(tmp_path.glob("job/.unpacking-*"))
