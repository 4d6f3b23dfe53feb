"""A daemon as its own process, in a folder of its own, and everything that it has started."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from muster.client import Client, Handle
from muster.client.connecting.settings import read_settings
from muster.wire.api.records import LIVE, JobDetail, JobRecord

LONG = 120.0
"""Seconds that anything may take on a busy machine."""
LOOK = 0.05
"""Seconds between two looks at whether something has come true: each costs some ms of the daemon's."""
MUSTER = (sys.executable, "-c", "from muster.cli.main import main; main()")
"""The command, whether or not its folder is in PATH."""
OWN = ("MUSTER_", "VIRTUAL_ENV")
"""Variables of whoever tests that are nothing to the daemon."""


def until(reached: Callable[[], Any], what: str = "") -> Any:
    """Wait until this is true of the world; what it returned then."""
    limit = time.monotonic() + LONG
    while not (found := reached()):
        assert time.monotonic() < limit, f"never came true: {what or reached}"
        time.sleep(LOOK)
    return found


def processes(mark: str) -> dict[int, str]:
    """The processes that have this text in their command line or environment, and what they run."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            known = command + b"\0" + (entry / "environ").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        if mark.encode() in known:
            found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def with_children(pids: Iterable[int]) -> set[int]:
    """These processes, their children, and so on."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if entry.name.isdigit():
                stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = set(pids)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def environment(home: Path) -> dict[str, str]:
    """What a person has who works with the daemon of this folder."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(OWN)}
    return {**kept, "MUSTER_HOME": str(home)}


class Daemon:
    """`muster up` in a folder; killed and started again on the same data, it is the same one."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        devices: int = 4,
        data: Path | None = None,
        before: Sequence[str] = (),
        cluster: Path | None = None,
    ) -> None:
        """`before`: a command that is to become the daemon in the end; `cluster`: a file with as many
        devices."""
        self.folder, self.devices = folder, devices
        self.home, self.data = folder / "home", data or folder / "data"
        self.home.mkdir(parents=True, exist_ok=True)
        self._before = before
        sized = {"--topology", "--engine"} & {*options}
        size = () if sized else ("--devices", str(devices))
        of = ("--cluster", str(cluster)) if cluster else size
        # Most tests use made-up users, whom a root daemon would refuse.
        run_as = () if "--run-as" in options else ("--run-as", "daemon")
        self._options = (*of, "--port", "0", *run_as, *options)
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None

    # --- the process ---

    @property
    def pid(self) -> int:
        """Of the daemon itself."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def code(self) -> int | None:
        """How it has ended."""
        return self._process.poll() if self._process is not None else None

    def launch(self) -> None:
        """Start it, and return at once."""
        assert not self.runs
        self._hang_up()  # the next one may listen elsewhere
        command = (*self._before, *MUSTER, "up", "--data", str(self.data), *self._options)
        with self._said.open("wb") as said, self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment(self.home), stdout=said, stderr=log, start_new_session=True
            )

    def start(self) -> None:
        """Start it, and return when it answers."""
        self.launch()
        self.await_ready()

    def await_ready(self) -> None:
        """Until it has said where it listens."""
        until(lambda: self.is_ready or not self.runs, "the daemon is ready")
        assert self.is_ready, self.log.read_text(encoding="utf-8")

    @property
    def is_ready(self) -> bool:
        """Whether it has said so."""
        return self._said.read_bytes().endswith(b"muster down\n")

    def kill(self) -> None:
        """kill -9."""
        self._hang_up()
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM, as `muster down` does; the exit code."""
        self._hang_up()
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(LONG)

    def limit_files(self, size: int = resource.RLIM_INFINITY) -> None:
        """From now on no file of the daemon's can be written beyond this size; without one: any."""
        hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, hard))

    def memory(self) -> int:
        """Bytes that it holds."""
        pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def log(self) -> Path:
        """What it writes for its administrator."""
        return self.folder / "daemon.log"

    @property
    def _said(self) -> Path:
        return self.folder / "daemon.out"

    # --- asking it ---

    @property
    def client(self) -> Client:
        """Its owner's client; of this daemon, which may listen elsewhere than the one before it."""
        if self._client is None:
            settings = read_settings({"MUSTER_HOME": str(self.home)})
            self._client = Client(settings.url, settings.token)
        return self._client

    @property
    def url(self) -> str:
        """Its address over TCP, for those who do not come through the Unix socket."""
        found = read_settings({"MUSTER_HOME": str(self.home)}).http
        assert found is not None
        return found

    @property
    def token(self) -> str:
        """The owner's token, which TCP needs."""
        found = read_settings({"MUSTER_HOME": str(self.home), "MUSTER_URL": self.url}).token
        assert found is not None
        return found

    def client_of(self, user: str) -> Client:
        """Another user's."""
        secret = self.client.create_token(user, user).secret
        return Client(self.client.connection.url, secret)

    def muster(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """The command line, as its owner types it."""
        return subprocess.run(
            [*MUSTER, *words],
            env=environment(self.home),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LONG,
            check=False,
        )

    def submit(self, *command: str, name: str, **fields: Any) -> Handle:
        """Submit a job that works in a folder which the test can look into."""
        where = self.work(name)
        return self.client.submit(
            {"command": list(command), "name": name, "folder": str(where), **fields}
        )

    def sh(self, line: str, *, name: str, **fields: Any) -> Handle:
        """Submit a line of shell."""
        return self.submit("sh", "-c", line, name=name, **fields)

    def work(self, name: str) -> Path:
        """Where the job of this name works."""
        folder = self.folder / "work" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def record(self, which: str) -> JobRecord:
        """A job as it is now."""
        return self.client.record(which)

    def detail(self, which: str) -> JobDetail:
        """All about it."""
        return self.client.job(which)

    def await_status(self, which: str, *statuses: str) -> JobRecord:
        """Until a job is one of these."""
        found: JobRecord = until(
            lambda: record if (record := self.record(which)).status in statuses else None,
            f"{which} is {' or '.join(statuses)}",
        )
        return found

    # --- what it leaves behind ---

    def strays(self) -> dict[int, str]:
        """Processes that its jobs have, the shims among them; not the daemon itself."""
        found = processes(str(self.data))
        return {pid: what for pid, what in found.items() if not self.runs or pid != self.pid}

    def clear(self) -> None:
        """Stop what still runs; then no process is left, and no device is held."""
        left = [job.number for job in self.client.jobs(statuses=LIVE)]
        for number in left:
            self.client.stop(number)
        for number in left:
            self.client.handle(number).wait(LONG)
        self.assert_nothing_left()

    def assert_nothing_left(self) -> None:
        """No process, no device, no file half written."""
        until(lambda: not self.strays(), "no process is left")
        status = self.client.status()
        assert (status.free, status.pending, status.running) == (self.devices, 0, 0)
        assert all(set(node.bitmap) <= {"."} for node in self.client.nodes())
        assert status.trouble == ""

    def end(self) -> None:
        """The end of a test, however it went: nothing of it lives on."""
        if self.runs:
            self.kill()
        for pid in self.strays():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        until(lambda: not self.strays(), "no process is left")

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
