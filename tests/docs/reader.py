"""A reader who types a page: a home, a folder and a virtual environment of their own."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import muster
from tests.live.daemons import processes, until

ROOT = Path(__file__).parents[2]
LIMIT = 540.0
"""Seconds for a page, on a busy machine."""

MUSTER = """#!{python}
import sys
from muster.cli.main import main
if __name__ == "__main__":
    if sys.argv[1:2] == ["up"] and "--port" not in sys.argv:
        sys.argv[2:2] = ["--port", "0"]  # several pages are read at a time, on one machine
    main()
"""
TORCHRUN = """#!{python}
from torch.distributed.run import main
if __name__ == "__main__":
    main()
"""


class Reader:
    """Types scripts in a folder with `examples` and `benchmarks`, as in a clone of the repository."""

    def __init__(self, folder: Path) -> None:
        self.home, self.folder, self._venv = folder / "home", folder / "muster", folder / "venv"
        self.home.mkdir()
        self.folder.mkdir()
        for each in ("examples", "benchmarks"):
            (self.folder / each).symlink_to(ROOT / each)
        self._install()

    def _install(self) -> None:
        """What `pip install` would do, with the packages that are here."""
        venv.create(self._venv, with_pip=False, symlinks=True)
        packages = [Path(muster.__file__).parents[1], *(p for p in sys.path if "site-packages" in p)]
        site = next((self._venv / "lib").glob("python*/site-packages"))
        (site / "here.pth").write_text("\n".join(map(str, packages)), encoding="utf-8")
        for name, text in (("muster", MUSTER), ("torchrun", TORCHRUN)):
            program = self._venv / "bin" / name
            program.write_text(text.format(python=self._venv / "bin/python"), encoding="utf-8")
            program.chmod(0o755)

    @property
    def environ(self) -> dict[str, str]:
        """A new login, with the virtual environment active."""
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        path = f"{self._venv}/bin:/usr/local/bin:/usr/bin:/bin"
        return {
            **kept,
            "HOME": str(self.home),
            "USER": "ada",
            "PATH": path,
            "VIRTUAL_ENV": str(self._venv),
        }

    def types(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script to its end."""
        return subprocess.run(
            ["bash"],
            input=script,
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    def leave(self) -> None:
        """End what is still running: what a page starts, it need not stop."""
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self._left(), "no process is left")

    def _left(self) -> list[int]:
        return [pid for pid in processes(str(self.home)) if pid != os.getpid()]


@contextlib.contextmanager
def a_reader() -> Iterator[Reader]:
    """A reader for the length of the block, in a folder with a name short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="page-", ignore_cleanup_errors=True) as folder:
        reader = Reader(Path(folder))
        try:
            yield reader
        finally:
            reader.leave()
