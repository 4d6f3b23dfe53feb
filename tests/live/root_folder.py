"""A small root file system: a shell, a few programs, and the libraries that they need."""

import re
import shutil
import subprocess
from pathlib import Path

PROGRAMS = ("sh", "cat", "env", "ls", "pwd", "sleep", "stty", "touch")
_LIBRARY = re.compile(r"(/\S+)(?= \(0x)")


def make_root(folder: Path) -> Path:
    """Make one; return it."""
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None, name
        _copy(Path(found), folder / "usr/bin" / name)
        needed = subprocess.run(["ldd", found], capture_output=True, text=True, check=False).stdout
        for library in _LIBRARY.findall(needed):
            _copy(Path(library), folder / library.lstrip("/"))
    for link in ("bin", "sbin"):
        (folder / link).symlink_to("usr/bin")
    (folder / "etc").mkdir()
    (folder / "etc/os-release").write_text("ID=small\n", encoding="utf-8")
    for place in ("tmp", "dev", "proc", "sys", "home"):
        (folder / place).mkdir()
    return folder


def _copy(source: Path, target: Path) -> None:
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
