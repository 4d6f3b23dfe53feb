"""What a job ships: the same content as the same bytes, without what is ignored."""

import os
import tarfile
from pathlib import Path

import pytest

from muster.client.errors import ClientError
from muster.client.sending import pack
from muster.client.sending.pack import pack_folder
from muster.client.sending.ship import as_shipped, shipping


def made(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def names(folder: Path) -> list[str]:
    with pack_folder(folder).file as file, tarfile.open(fileobj=file) as tar:
        return tar.getnames()


def digest(folder: Path) -> str:
    packed = pack_folder(folder)
    packed.file.close()
    return packed.digest


def test_equal_folders_have_one_digest_whenever_and_wherever_they_were_made(tmp_path: Path) -> None:
    files = {"train.py": "print(1)", "lib/model.py": "x = 1"}
    one, other = made(tmp_path / "one", files), made(tmp_path / "other", dict(reversed(files.items())))
    os.utime(other / "train.py", (1, 1))
    assert digest(one) == digest(other)
    (other / "train.py").write_text("print(2)")
    assert digest(one) != digest(other)


def test_programs_stay_executable_and_links_stay_links(tmp_path: Path) -> None:
    made(tmp_path, {"bin/run": "#!/bin/sh"})
    (tmp_path / "bin/run").chmod(0o700)
    (tmp_path / "run").symlink_to("bin/run")
    with pack_folder(tmp_path).file as file, tarfile.open(fileobj=file) as tar:
        assert tar.getmember("bin/run").mode == 0o755
        assert tar.getmember("run").linkname == "bin/run"


def test_what_git_ignores_is_left_out_and_nested_rules_override(tmp_path: Path) -> None:
    made(
        tmp_path,
        {
            ".git/config": "",
            ".gitignore": "*.bin\n/data\n__pycache__/\n",
            "a.bin": "",
            "data/x": "",
            "src/data/x": "",
            "src/.gitignore": "!keep.bin\nlocal.txt\n",
            "src/keep.bin": "",
            "src/other.bin": "",
            "src/local.txt": "",
            "src/__pycache__/a.pyc": "",
            "local.txt": "",
        },
    )
    found = names(tmp_path)
    assert {"local.txt", "src/keep.bin", "src/data/x"} <= set(found)
    left_out = {"a.bin", "data", "data/x", "src/other.bin", "src/local.txt", "src/__pycache__", ".git"}
    assert not left_out & set(found)


def test_musterignore_has_the_last_word(tmp_path: Path) -> None:
    made(tmp_path, {".gitignore": "*.json\n", ".musterignore": "!vocab.json\nnotes/\n"})
    made(tmp_path, {"vocab.json": "", "other.json": "", "notes/a.md": ""})
    assert names(tmp_path) == [".gitignore", ".musterignore", "vocab.json"]


def test_a_folder_of_a_repository_follows_the_rules_above_it(tmp_path: Path) -> None:
    made(tmp_path, {".git/HEAD": "", ".gitignore": "*.log\n", "train/a.log": "", "train/a.py": ""})
    assert names(tmp_path / "train") == ["a.py"]


def test_a_link_out_of_the_folder_is_refused_by_name(tmp_path: Path) -> None:
    folder = made(tmp_path / "code", {"train.py": ""})
    for target in ("/etc", "../elsewhere"):
        link = folder / "data"
        link.symlink_to(target)
        with pytest.raises(ClientError, match=f"data is a link out of .* to {target}: list it in"):
            pack_folder(folder)
        (folder / ".musterignore").write_text("data\n")
        assert "data" not in names(folder)
        link.unlink()
        (folder / ".musterignore").unlink()


def test_too_large_a_folder_is_refused_with_its_largest_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "SHIP_LIMIT", 5_000_000)
    made(tmp_path, {"weights.bin": "x" * 4_000_000, "data/a.csv": "x" * 2_000_000, "train.py": ""})
    with pytest.raises(ClientError) as refused:
        pack_folder(tmp_path)
    assert "has 6 MB, above the limit of 5 MB" in str(refused.value)
    assert "largest: weights.bin (4 MB), data/a.csv (2 MB)" in str(refused.value)
    assert ".musterignore" in str(refused.value)


def test_the_working_directory_counts_from_the_shipped_folder(tmp_path: Path) -> None:
    record = {"command": "python a.py", "ship": str(tmp_path), "folder": str(tmp_path / "src")}
    assert shipping(record) == tmp_path
    assert as_shipped(record, tmp_path, "sha256:0")["folder"] == "src"
    outside = {**record, "folder": "/somewhere"}
    assert "folder" not in as_shipped(outside, tmp_path, "sha256:0")
    assert shipping({"ship": "sha256:" + "0" * 64}) is None
